import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion} from "../../../dpsgd_explorer/web/labs/planner/budget_map.js";
import {TEXTS} from "../../../static/js/forms/plan_panel.js";

test("the noise of a plan is rounded up: typed in, it spends no more", () => {
  const text = (noise_multiplier) => TEXTS.noise_multiplier({private: true, noise_multiplier});
  assert.deepEqual([1.86238666, 4.21342235, 1.1, 2].map(text), ["1.863", "4.214", "1.100", "2.000"]);
  assert.equal(TEXTS.noise_multiplier({private: false, noise_multiplier: 0}), "0");
});

test("noise that changes is printed with its first and last value", () => {
  const plan = {private: true, noise_multiplier: 2, last_noise_multiplier: 1.00001};
  assert.equal(TEXTS.noise_multiplier(plan), "2.000 to 1.001");
});

test("so is the noise of a point of the budget map", () => {
  const point = {epochs: 10, noise_multiplier: 1.86238666, epsilon_text: "3.00"};
  assert.match(conclusion({point, budget: {epsilon: 3}}), /σ = 1\.863 /);
});

test("noise that is only bounded so far is printed as a bound", () => {
  const text = (noise_is_bound) => TEXTS.noise_multiplier({private: true, noise_multiplier: 0.33794, noise_is_bound});
  assert.deepEqual([true, false].map(text), ["≤ 0.338", "0.338"]);
});
