import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, frequencies, kinds, placed} from "../../../dpsgd_explorer/web/hub/widgets/odds_faces/widget.js";

const count = (list, kind) => list.filter((one) => one === kind).length;

test("a hundred faces: right anyway, gained, and wrong", () => {
  const faces = kinds(50, 74);
  assert.deepEqual(["given", "gained", "none"].map((kind) => count(faces, kind)), [50, 24, 26]);
  assert.equal(count(kinds(1, 100), "none"), 0);
});

test("words are in natural frequencies and in odds", () => {
  const limits = {right: 3, percent: "2.7"};
  assert.equal(conclusion("ε alone", 1, 1, limits), "At ε = 1, ε alone allows at most 3 right guesses of 100; without the release, 1 is right");
  assert.match(frequencies("2.72", 1, limits), /the odds are 1 to 99\. The odds grow by a factor of at most 2\.72: ε alone allows 2\.7 %, or 3 people/);
  assert.match(frequencies("1.00", 50, {right: 50, percent: "50.0"}), /They stay so/);
});

test("only guesses at an epsilon of the slider are marked", () => {
  const at = {x: 1};
  const found = placed([{value: 60, at, words: "60"}, {value: null, at, words: null}, {value: 7, at: {x: 7}}, {value: 7, at: null}], [0, 1]);
  assert.deepEqual(found, [{index: 1, value: 60, words: "60"}]);
});
