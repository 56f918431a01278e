import assert from "node:assert/strict";
import {test} from "node:test";
import {afterNextEpoch, spentAt} from "../../../static/js/charts/plan.js";
import {PLAN, RECORDED} from "../support.js";

const {plan} = RECORDED;

test("the wall stands at the target", () => {
  assert.deepEqual([PLAN.budget, PLAN.budget_text, PLAN.budget_word], [1, "1.00", "budget"]);
  assert.deepEqual(PLAN.ticks.map(({text}) => text), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
});

test("the odds under the ticks are the server's", () => {
  assert.equal(PLAN.ticks[0].odds, "50.0");
  assert.equal(PLAN.ticks.at(-1).odds, "73.2"); // e / (1 + e), rounded up
});

test("what is spent by a step is a value that the server listed, and never below the truth", () => {
  const {steps, epsilon} = plan.curve;
  for (const [i, step] of steps.entries()) assert.equal(spentAt(plan, step), epsilon[i]);
  assert.equal(spentAt(plan, steps.at(-2) + 0.5), epsilon.at(-1));
  assert.equal(spentAt(plan, steps.at(-1) + 1), null);
  assert.equal(spentAt({curve: null}, 1), null);
});

test("the next epoch's price is one the server listed, and never below the present", () => {
  const {curve, steps, sample_rate} = plan;
  const price = afterNextEpoch(PLAN, 20);
  const at = curve.epsilon.indexOf(price);
  assert.ok(curve.steps[at] >= 20 + 1 / sample_rate);
  assert.equal(afterNextEpoch(PLAN, steps), curve.epsilon.at(-1));
});
