import assert from "node:assert/strict";
import {test} from "node:test";
import {accuracyAt, figure} from "../../../static/js/charts/accuracy.js";
import {PREDICTION, verdict} from "../../../static/js/charts/ghosts.js";
import {height} from "../../../static/js/charts/ticks.js";
import {PLAN, SIZE, behind, color, logUpTo, logUpToStep} from "../support.js";

const RANGE = [50, 95];
const VIEW = {evaluations: [], plan: PLAN, axis: "epsilon", range: RANGE, first_epsilon: null, seconds: 1, size: SIZE};

function predicted(value, axis = "epsilon") {
  const point = {test_accuracy: value / 100, step: PLAN.last_step, epsilon: PLAN.budget, seconds: null};
  const ghosts = [behind(PREDICTION, {id: PREDICTION, points: [point]})];
  return figure({...VIEW, axis, ghosts}, color);
}

test("a prediction is a mark at the end of the plan, with its name", () => {
  const {traces, layout} = predicted(80);
  assert.deepEqual(traces[0].x, [PLAN.budget]);
  assert.deepEqual(traces[0].y, [height(80, RANGE)]);
  assert.equal(traces[0].marker.symbol, "diamond-open");
  assert.match(traces[0].customdata[0], /^your prediction: 80\.0 % · ε [\d.]+ · step \d+$/);
  assert.ok(layout.annotations.some(({text}) => text === "your prediction, 80.0 %"));
  assert.deepEqual(predicted(80, "step").traces[0].x, [PLAN.last_step]);
});

test("nobody predicts the seconds", () => {
  assert.equal(predicted(80, "seconds").traces.some(({marker}) => marker.symbol === "diamond-open"), false);
});

test("a height of the drawing is the percentage that is drawn there", () => {
  const {margin} = predicted(80).layout;
  assert.ok(Math.abs(accuracyAt(VIEW, margin.t) - RANGE[1]) < 1e-9);
  assert.ok(Math.abs(accuracyAt(VIEW, SIZE.height - margin.b) - RANGE[0]) < 1e-9);
  assert.equal(accuracyAt(VIEW, -50), accuracyAt(VIEW, margin.t));
  const middle = accuracyAt(VIEW, (margin.t + SIZE.height - margin.b) / 2);
  assert.ok(middle > (RANGE[0] + RANGE[1]) / 2); // the axis is one of errors
});

test("the end is held against the prediction, and nothing before it", () => {
  const whole = logUpTo();
  const reached = 100 * whole.evaluations.at(-1).test_accuracy;
  assert.equal(verdict(80, undefined), "");
  assert.equal(verdict(80, logUpToStep(whole.evaluations[0].step)), "");
  assert.match(verdict(reached - 1.5, whole), / 1\.5 points above your prediction\.$/);
  assert.match(verdict(reached + 2, whole), / 2\.0 points below your prediction\.$/);
  assert.match(verdict(reached, whole), /, as you predicted\.$/);
});
