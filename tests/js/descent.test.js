/** The descent's chart: an error has a place on it, or is said to be infinite. */

import assert from "node:assert/strict";
import test from "node:test";

import {conclusion, errorRange, figure, mse, ratioTicks} from "../../static/js/charts/descent.js";

const PLAN = {steps: 100, epsilon: 2, repetitions: 20, nonprivate_mse: 0.6, trivial_mse: 1.3};
const point = (step, epsilon, median, low = median, high = median) => ({step, epsilon, mse_median: median, mse_low: low, mse_high: high});
const draw = (points) => figure({points, whole: points, plan: PLAN, size: {width: 800, height: 300}}, (token) => token);

test("an error is printed to four decimals, a large one short, an infinite one as such", () => {
  assert.deepEqual([mse(0.66876), mse(1234.5), mse(1e9), mse(null)], ["0.6688", "1,235", "> 10⁶", "∞"]);
});

test("the axis holds both baselines and every band, up to far above", () => {
  const [low, high] = errorRange([point(1, 0.1, 3, 2, 4)], PLAN);
  assert.ok(low < 0.6 && high > 4);
  assert.equal(errorRange([point(1, 0.1, 3, 2, null)], PLAN)[1], 30 * 1.3);
});

test("ticks are round and within the range", () => {
  assert.deepEqual(ratioTicks([0.44, 4.6]), [0.5, 0.7, 1, 1.5, 2, 3]);
  assert.deepEqual(ratioTicks([0.4, 40]), [0.5, 1, 2, 5, 10, 20]);
});

test("no coordinate is NaN or infinite, also when descents are lost", () => {
  const {traces, layout} = draw([point(1, 0.1, 3), point(50, 1, 200, 2, null), point(100, 2, null, null, null)]);
  const numbers = [...traces.flatMap(({x, y}) => [...x, ...y]), ...layout.yaxis.range, ...layout.annotations.map(({y}) => y)];
  for (const value of numbers) assert.ok(value === null || Number.isFinite(value), String(value));
  assert.equal(layout.yaxis.type, "log");
});

test("an empty log draws the axes of the plan", () => {
  const {traces, layout} = draw([]);
  assert.ok(traces.every(({x}) => x.length === 0));
  assert.equal(layout.shapes.length, 2);
});

test("the heading says what the numbers on screen do", () => {
  assert.match(conclusion([point(100, 1.99, 0.67)], PLAN), /^After 100 of 100 steps, ε = 1\.99, the median error of 20 descents is 0\.6700: 10 % of the way/);
  assert.match(conclusion([point(1, 0.1, 3)], PLAN), /worse than always answering the mean \(1\.3000\)$/);
  assert.match(conclusion([point(1, 0.1, null)], {...PLAN, repetitions: 1}), /the error is ∞: it diverges$/);
});
