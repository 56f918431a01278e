import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {test} from "node:test";
import {thin} from "../../../static/js/charts/base.js";
import {errorRange, height, niceCeiling, niceStep, niceTicks} from "../../../static/js/charts/ticks.js";

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

const ADULT = [75, 90];

test("the accuracy axis is close up as long as every point stands on it", () => {
  assert.deepEqual(errorRange(ADULT, []), [75, 90]);
  assert.deepEqual(errorRange(ADULT, [76, 90, 80]), [75, 90]);
  assert.deepEqual(errorRange(ADULT, [72, 80]), [70, 90]);
  assert.deepEqual(errorRange(ADULT, [80, 98.2]), [75, 99.5]);
  assert.deepEqual(errorRange(ADULT, [0, 100]), [0, 99.5]);
  assert.deepEqual(errorRange([0, 99.5], [0, 100]), [0, 99.5]);
});

test("step 1 and the last half point of each recorded preset are seen on the axis", () => {
  for (const slug of ["mnist", "mnist-cnn", "mnist-pixels", "adult"]) {
    const {events} = JSON.parse(readFileSync(new URL(`../../../dpsgd_explorer/web/recorded/${slug}.json`, import.meta.url), "utf8"));
    const points = events.filter(({kind}) => kind === "evaluation").map(({data}) => data);
    const range = errorRange(slug === "adult" ? ADULT : [0, 99.5], points.map(({test_accuracy: share}) => 100 * share));
    const [floor, ceiling] = range.map((end) => height(end, range));
    const share = (percent) => (height(percent, range) - floor) / (ceiling - floor);
    const last = 100 * points.at(-1).test_accuracy;
    assert.ok(share(100 * points[0].test_accuracy) >= 0, slug);
    assert.ok(share(last) - share(last - 0.5) > 0.01, `${slug}: half a point is 3 px of 300`);
  }
});

test("an axis of no length has no ticks", () => {
  for (const end of [0, -1, NaN, Infinity, undefined, null]) assert.deepEqual(niceTicks(end), []);
});
