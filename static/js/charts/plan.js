/**
 * Plan of a run, as its charts need it. The server sent all privacy values; this module only combines them.
 *
 * @typedef {object} Tick
 * @property {number} epsilon
 * @property {string} text
 * @property {string} odds percent, largest success rate of an attacker for this ε
 *
 * @typedef {object} Plan
 * @property {boolean} private
 * @property {number} steps
 * @property {number} last_step last step within the budget
 * @property {number} sample_rate
 * @property {string} [accountant] name of the accountant; for a filter, ε is the counted value and the budget counts
 *   as spent
 * @property {number | null} budget largest ε of the run, null without privacy
 * @property {string} budget_text
 * @property {"budget" | "stop at" | "planned"} budget_word
 * @property {number} digits decimals of all values of ε
 * @property {Tick[]} ticks of the epsilon axis
 * @property {{steps: number[], epsilon: number[]}} curve
 * @property {number} baseline share of the majority class
 * @property {number} classes
 * @property {number} accuracy_floor
 * @property {number} accuracy_ceiling
 * @property {number} max_grad_norm
 * @property {string} clipping_fn
 * @property {number} evaluations
 * @property {string | null} run_odds percent, largest success rate of an attacker of this run
 */

import {roundUp} from "../lib/format.js";
import {niceStep} from "./base.js";

export const FILTER = "filter"; // accountant of runs with a budget for mid-run changes
const MOST_DECIMALS = 100; // limit of toFixed

/**
 * @param {Record<string, any>} answer of /api/v1/privacy/plan
 * @param {Record<string, any>} config the requested settings
 * @param {{data_sets: Record<string, any>, scales: {step: number, ticks: Tick[]}[]}} catalogue
 * @returns {Plan}
 */
export function chartPlan(answer, config, catalogue) {
  const {budget, budget_word} = budgetOf(answer, config);
  const digits = decimalsOf(budget);
  return {
    ...answer,
    ...catalogue.data_sets[config.dataset],
    max_grad_norm: config.max_grad_norm,
    clipping_fn: config.clipping_fn,
    evaluations: config.evaluations,
    budget,
    budget_word,
    budget_text: roundUp(budget, digits),
    digits,
    ticks: budget === null ? [] : ticksUpTo(budget, catalogue.scales),
  };
}

/** Decimals that resolve all values up to a budget; null: without privacy. */
export function decimalsOf(budget) {
  if (!budget || budget >= 0.1) return 2;
  return Math.min(Math.max(4, 1 - Math.floor(Math.log10(budget))), MOST_DECIMALS);
}

/** Budget of a run and its name: the ε at which the run stops, the target ε, or the planned ε. */
function budgetOf(answer, {stop_at_epsilon, target_epsilon, filter_epsilon}) {
  if (!answer.private) return {budget: null, budget_word: "budget"};
  if (filter_epsilon) return {budget: filter_epsilon, budget_word: "budget"};
  if (stop_at_epsilon && answer.last_step < answer.steps) return {budget: stop_at_epsilon, budget_word: "stop at"};
  if (target_epsilon) return {budget: target_epsilon, budget_word: "budget"};
  return {budget: answer.epsilon, budget_word: "planned"};
}

/** @returns {Tick[]} */
export function ticksUpTo(budget, scales) {
  const step = niceStep(budget, 6);
  const scale = scales.find((candidate) => Math.abs(candidate.step / step - 1) < 1e-6) ?? scales.at(-1);
  return scale.ticks.filter((tick) => tick.epsilon <= budget * 1.0001);
}

/**
 * Pure: the plan with the changes made during the run.
 * @param {Plan} plan @param {import("../runs/log/run_log.js").RunLog} log
 */
export function planNow(plan, log) {
  const {phase} = log;
  if (!phase?.changes || log.changes.length === 0) return plan;
  const rates = [{step: 0, sample_rate: plan.sample_rate}, ...log.changes];
  const {steps = plan.steps, sample_rate = plan.sample_rate, expected_batch_size = plan.expected_batch_size} = phase;
  return {...plan, run_odds: null, steps, sample_rate, expected_batch_size, last_step: phase.last_step ?? Math.max(steps, plan.last_step === plan.steps ? 0 : plan.last_step), rates};
}

/** Epochs after a number of steps, with the sampling rate of each step. */
export function epochAt({rates, sample_rate}, step) {
  if (!rates) return step * sample_rate;
  return rates.reduce((sum, rate, i) => {
    const end = Math.min(step, rates[i + 1]?.step ?? step);
    return sum + Math.max(0, end - rate.step) * (rate.sample_rate ?? sample_rate);
  }, 0);
}

/** ε after one more epoch, from the server's list; null at the end. */
export function afterNextEpoch({curve, sample_rate, rates}, step) {
  if (!curve || rates) return null;
  const nextEpoch = Math.min(step + 1 / sample_rate, curve.steps.at(-1));
  const index = curve.steps.findIndex((listed) => listed >= nextEpoch);
  return index < 0 ? null : curve.epsilon[index];
}

/**
 * ε that the plan has spent by a step, interpolated linearly between the server's values: a position on an axis, not
 * a guarantee.
 */
export function spentAt({curve}, step) {
  if (!curve || step > curve.steps.at(-1)) return null;
  const after = curve.steps.findIndex((listed) => listed >= step);
  if (after === 0) return curve.epsilon[0];
  const [from, to] = [curve.steps[after - 1], curve.steps[after]];
  const [low, high] = [curve.epsilon[after - 1], curve.epsilon[after]];
  return low + ((step - from) / (to - from)) * (high - low);
}
