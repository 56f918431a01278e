import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, sentence} from "../../../dpsgd_explorer/web/hub/widgets/ridge_pull/widget.js";

const DATA = {
  epsilons: [0.1, 2], least: "0.61", releases: 50, names: {with: "AdaSSP", without: "SSP"},
  ways: {with: [{error: "0.8", outside: 0}, {error: "0.65", outside: 0}], without: [{error: "1.1", outside: 12}, {error: "0.7", outside: 0}]},
};

test("the heading has the error of the chosen way", () => {
  assert.equal(conclusion(DATA, "with", 1), "AdaSSP: median error 0.65 at ε = 2");
});

test("the sentence compares both ways, and tells of points outside the picture", () => {
  assert.match(sentence(DATA, "with", 0), /to zero.*The same noise without a ridge: 1\.1\. No noise: 0\.61\.$/);
  assert.doesNotMatch(sentence(DATA, "with", 0), /outside/);
  assert.match(sentence(DATA, "without", 0), /12 of 50 are outside\..*with a ridge: 0\.8/);
});
