import assert from "node:assert/strict";
import {test} from "node:test";
import {Lens, offered} from "../../../static/js/runs/panel/budget.js";
import {PLAN, RECORDED, logUpTo, logUpToStep} from "../support.js";

const log = logUpTo();
const steps = [...new Set(log.events.map(({data}) => data.step ?? 0))].sort((a, b) => a - b);
const ANSWER = {
  accountant: "other", status: "approximation", delta: 1e-5, neighboring_relation: "add_or_remove_one",
  epsilon: 0.4, epsilon_text: "0.40", curve: {steps, epsilon: steps.map((step) => (0.4 * step) / steps.at(-1))},
  epsilon_axis: {budget: 0.4, budget_text: "0.40", budget_word: "spent", digits: 2, ticks: []},
};
const catalogue = {...RECORDED.catalogue, accountants: {...RECORDED.catalogue.accountants, other: "Other"}};
const lens = new Lens({plan: RECORDED.plan, config: RECORDED.config, catalogue}, ANSWER);

test("every epsilon of the log is the other accountant's, and nothing else differs", () => {
  const other = lens.of(log);
  assert.equal(other.evaluations.length, log.evaluations.length);
  for (const [i, point] of other.evaluations.entries()) {
    assert.equal(point.epsilon, ANSWER.curve.epsilon[steps.indexOf(point.step)]);
    assert.deepEqual({...point, epsilon: 0}, {...log.evaluations[i], epsilon: 0});
  }
  assert.equal(other.latest.epsilon, 0.4);
  assert.equal(other.isFinal, log.isFinal);
});

test("the log itself is left as it was", () => {
  const before = log.evaluations.map(({epsilon}) => epsilon);
  lens.of(log);
  assert.deepEqual(log.evaluations.map(({epsilon}) => epsilon), before);
});

test("the axis ends at what the other accountant says was spent, and says who counts", () => {
  assert.equal(PLAN.budget_word, "budget");
  assert.deepEqual([lens.plan.budget, lens.plan.budget_word, lens.plan.status], [0.4, "spent", "approximation"]);
  assert.match(lens.terms, /accountant: Other, approximation$/);
});

test("a heading with the other accountant's ε names the accountant", () => {
  assert.equal(lens.named("98.3 % at ε = 0.40"), "98.3 % at ε = 0.40 (ε counted by: Other)");
});

test("a part of the log, as a replay shows it, is seen the same way", () => {
  const part = logUpToStep(steps[3]);
  assert.equal(lens.of(part).latest.epsilon, ANSWER.curve.epsilon[3]);
  assert.equal(lens.of(part), lens.of(part));
});

test("only accountants that cover the run's sampling are offered", () => {
  const run = {url: "", config: {}, catalogue: {claims: {exact: "exact", rdp: "bound", gdp: "approximation"}}};
  assert.deepEqual(offered({...run, plan: {accountants: ["exact", "all"]}}), ["exact"]);
  assert.deepEqual(offered({...run, plan: {accountants: ["rdp", "exact", "gdp", "all"]}}), ["exact", "rdp", "gdp"]);
});
