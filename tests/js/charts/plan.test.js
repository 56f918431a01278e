import assert from "node:assert/strict";
import {test} from "node:test";
import {afterNextEpoch, chartPlan, ticksUpTo} from "../../../static/js/charts/plan.js";
import {PLAN, RECORDED} from "../support.js";

const {plan, config, catalogue} = RECORDED;

test("the wall stands at the target", () => {
  assert.deepEqual([PLAN.budget, PLAN.budget_text, PLAN.budget_word], [1, "1.00", "budget"]);
  assert.deepEqual(PLAN.ticks.map(({text}) => text), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
});

test("the odds under the ticks are the server's", () => {
  assert.equal(PLAN.ticks[0].odds, "50.0");
  assert.equal(PLAN.ticks.at(-1).odds, "73.2"); // e / (1 + e), rounded up
});

test("a fixed noise puts the wall at what the plan will spend", () => {
  const given = chartPlan({...plan, epsilon: 0.7312}, {...config, target_epsilon: null, noise_multiplier: 4}, catalogue);
  assert.deepEqual([given.budget, given.budget_text, given.budget_word], [0.7312, "0.74", "planned"]);
});

test("a stop that comes before the last step is the wall; one that does not is none", () => {
  const stopped = chartPlan({...plan, last_step: 20}, {...config, stop_at_epsilon: 0.5}, catalogue);
  assert.deepEqual([stopped.budget, stopped.budget_word], [0.5, "stop at"]);
  assert.equal(chartPlan(plan, {...config, stop_at_epsilon: 9}, catalogue).budget, 1);
});

test("without privacy there is no budget and no tick", () => {
  const open = chartPlan({...plan, private: false, epsilon: null}, config, catalogue);
  assert.deepEqual([open.budget, open.budget_text, open.ticks.length], [null, "∞", 0]);
});

test("every budget of the form has its ticks", () => {
  for (const budget of [0.01, 0.07, 0.3, 2.41, 8, 30, 999, 1000]) {
    const ticks = ticksUpTo(budget, catalogue.scales);
    assert.ok(ticks.length >= 4 && ticks.length <= 11, `${budget}: ${ticks.length}`);
    assert.ok(ticks.at(-1).epsilon <= budget * 1.001 && ticks.at(-1).epsilon > 0.7 * budget);
  }
});

test("the next epoch's price is one the server listed, and never below the present", () => {
  const {curve, steps, sample_rate} = plan;
  const price = afterNextEpoch(PLAN, 20);
  const at = curve.epsilon.indexOf(price);
  assert.ok(curve.steps[at] >= 20 + 1 / sample_rate);
  assert.equal(afterNextEpoch(PLAN, steps), curve.epsilon.at(-1));
});
