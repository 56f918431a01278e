import assert from "node:assert/strict";
import {test} from "node:test";
import {accuracyRange} from "../../static/js/charts/accuracy_axis.js";
import {niceCeiling, niceStep, niceTicks, thin} from "../../static/js/charts/scale.js";

test("ticks are round and reach the end", () => {
  assert.deepEqual(niceTicks(3, 6), [0, 0.5, 1, 1.5, 2, 2.5, 3]);
  assert.deepEqual(niceTicks(300, 4), [0, 100, 200, 300]);
  assert.deepEqual(niceTicks(0.3, 6), [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]);
  assert.equal(niceStep(20, 5), 5);
});

test("a ceiling is the next round value", () => {
  assert.deepEqual([0.3, 1, 1.01, 430, 512].map(niceCeiling), [0.5, 1, 2, 500, 1000]);
});

test("thinning keeps ends, order and every stretch's extremes", () => {
  const points = Array.from({length: 10_000}, (_, i) => ({i, y: Math.sin(i / 300)}));
  points[4321].y = 50;
  points[8765].y = -50;
  const kept = thin(points, (point) => point.y, 1000);
  assert.ok(kept.length <= 1000 && kept.length > 900);
  assert.ok(kept.includes(points[4321]) && kept.includes(points[8765]));
  assert.equal(kept[0], points[0]);
  assert.equal(kept.at(-1), points.at(-1));
  assert.deepEqual(kept.map(({i}) => i), kept.map(({i}) => i).sort((a, b) => a - b));
});

test("few points are left as they are", () => {
  const points = [{y: 1}, {y: 2}];
  assert.equal(thin(points, (point) => point.y), points);
});

const ADULT = {accuracy_floor: 0.75, accuracy_ceiling: 0.9};
const at = (...shares) => shares.map((test_accuracy) => ({test_accuracy}));

test("the accuracy axis is close up until a run has shown that it stays below", () => {
  assert.deepEqual(accuracyRange(ADULT, [], 40), [75, 90]);
  assert.deepEqual(accuracyRange(ADULT, at(0.5, 0.6, 0.7), 40), [75, 90]);
  assert.deepEqual(accuracyRange(ADULT, at(...Array(10).fill(0.5)), 40), [0, 99.5]);
});

test("the axis does not move again when such a run climbs after all", () => {
  assert.deepEqual(accuracyRange(ADULT, at(...Array(10).fill(0.5), 0.9, 0.95), 40), [0, 99.5]);
  assert.deepEqual(accuracyRange(ADULT, at(0.5, 0.9, ...Array(30).fill(0.5)), 40), [75, 90]);
});

test("an axis of no length has no ticks", () => {
  for (const end of [0, -1, NaN, Infinity, undefined, null]) assert.deepEqual(niceTicks(end), []);
});
