import assert from "node:assert/strict";
import {test} from "node:test";
import {cutWords, topOf} from "../../../static/js/charts/series.js";
import {LOSS} from "../support.js";

test("an axis along the steps ends at the far end only for a run that stays there", () => {
  const flat = (test_loss) => ({evaluations: Array(10).fill({test_loss})});
  assert.equal(topOf(LOSS, [1, 5], {evaluations: []}), 1);
  assert.equal(topOf(LOSS, [1, 5], flat(0.2)), 1);
  assert.equal(topOf(LOSS, [1, 5], flat(2.3)), 5);
});

test("a loss that rises above its start is in view, and values that are not are said to be cut off", () => {
  const of = (...values) => ({steps: [], evaluations: values.map((test_loss) => ({test_loss}))});
  const [rising, falling] = [of(0.67, 1.05, 0.8, 0.6, 0.5, 0.46), of(2.3, 1.4, 0.8, 0.6)];
  assert.equal(topOf(LOSS, [0.8, 1.5], rising), 1.5);
  assert.equal(topOf(LOSS, [0.8, 1.5], falling), 0.8);
  assert.equal(cutWords(LOSS, rising, 1.5), "");
  assert.equal(cutWords(LOSS, falling, 0.8), "; values above 0.8 are cut off");
  assert.equal(cutWords(LOSS, {steps: [{loss: 0.9}], evaluations: []}, 0.8), "; values above 0.8 are cut off");
});
