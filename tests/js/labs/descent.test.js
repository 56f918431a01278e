/** The descent's chart: an error has a place on it, or is said to be infinite. */

import assert from "node:assert/strict";
import test from "node:test";

import {conclusion, figure, mse} from "../../../dpsgd_explorer/web/labs/regression/chart.js";

const AXES = {
  epsilon: 2,
  error: [0.55, 1.46],
  ticks: [[0.6, "0.6"], [0.8, "0.8"], [1, "1"], [1.2, "1.2"], [1.4, "1.4"]],
  baselines: [
    {error: 1.3, words: "always the mean", colour: "twin", is_at_end: true},
    {error: 0.6, words: "non-private", colour: "twin", is_at_end: false},
  ],
  name: "mean squared error",
  colour: "good",
};
const PLAN = {steps: 100, epsilon: 2, repetitions: 20, nonprivate_mse: 0.6, trivial_mse: 1.3, axes: AXES};
const point = (step, epsilon, median, low = median, high = median) => ({step, epsilon, mse_median: median, mse_low: low, mse_high: high});
const draw = (points) => figure({points, plan: PLAN, size: {width: 800, height: 300}}, (token) => token);

test("an error is printed to four decimals, a large one short, an infinite one as such", () => {
  assert.deepEqual([mse(0.66876), mse(1234.5), mse(1e9), mse(null)], ["0.6688", "1,235", "> 10⁶", "∞"]);
});

test("no coordinate is NaN or infinite, also when descents are lost", () => {
  const {traces, layout} = draw([point(1, 0.1, 3), point(50, 1, 200, 2, null), point(100, 2, null, null, null)]);
  const numbers = [...traces.flatMap(({x, y}) => [...x, ...y]), ...layout.yaxis.range, ...layout.annotations.map(({y}) => y)];
  for (const value of numbers) assert.ok(value === null || Number.isFinite(value), String(value));
});

test("an empty log draws the axes, baselines and words of the plan", () => {
  const {traces, layout} = draw([]);
  assert.deepEqual(layout.yaxis.range, AXES.error);
  assert.deepEqual(layout.yaxis.ticktext, AXES.ticks.map(([, text]) => text));
  assert.deepEqual(layout.annotations.map(({text}) => text), ["mean squared error", "ε spent", "always the mean, 1.3000", "non-private, 0.6000"]);
  assert.ok(traces.every(({x}) => x.length === 0));
  assert.equal(layout.shapes.length, 2);
});

test("the heading says what the numbers on screen do", () => {
  assert.match(conclusion([point(100, 1.99, 0.67)], PLAN), /^After 100 of 100 steps, ε = 1\.99, the median error of 20 descents is 0\.6700: 10 % of the way/);
  assert.match(conclusion([point(1, 0.1, 3)], PLAN), /worse than always answering the mean \(1\.3000\)$/);
  assert.match(conclusion([point(1, 0.1, null)], {...PLAN, repetitions: 1}), /the error is ∞: it diverges$/);
});
