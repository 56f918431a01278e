import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, gain, sentence} from "../../../dpsgd_explorer/web/hub/widgets/noise_to_signal/widget.js";

const points = [[64, 1, 1], [128, 0.5, 0.8], [256, 0.2, 0.6], [300, 0.1, 0.57]].map(([batch, ...shares]) => ({batch, shares}));
const DATA = {doubling: 2, points};

test("the gain of a doubling is in noise over the run", () => {
  assert.ok(Math.abs(gain(DATA, 0) - 0.4) < 1e-12);
  assert.ok(Math.abs(gain(DATA, 2) - 0.05) < 1e-12);
  assert.equal(gain(DATA, 3), 0);
});

test("what a larger batch would bring, in words", () => {
  assert.equal(sentence(DATA, 0), "Twice the batch would take away another 40 % of the noise over the run.");
  assert.match(sentence(DATA, 2), /^Taking all records in every step .* 5 %/);
  assert.match(sentence(DATA, 3), /no larger batch is left/);
});

test("the heading sets noise per update beside noise over the run", () => {
  assert.equal(conclusion(DATA, 2), "A batch of 256 leaves 20 % of the noise per update of a batch of 64, and 60 % of the noise over the run");
});
