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
 * @property {"budget" | "stop at" | "planned" | "spent"} budget_word
 * @property {number} digits decimals of all values of ε
 * @property {Tick[]} ticks of the epsilon axis
 * @property {{steps: number[], epsilon: number[]}} curve
 * @property {number} baseline share of the majority class
 * @property {number} classes
 * @property {[number, number]} accuracy_range percent, usual ends of the axis
 * @property {number} max_grad_norm
 * @property {string} clipping_fn
 * @property {number} evaluations
 * @property {string | null} run_odds percent, largest success rate of an attacker of this run
 */

export const FILTER = "filter"; // accountant of runs with a budget for mid-run changes

/**
 * @param {Record<string, any>} answer of /api/v1/privacy/plan
 * @param {Record<string, any>} config the requested settings
 * @param {{data_sets: Record<string, any>}} catalogue
 * @returns {Plan}
 */
export function chartPlan({epsilon_axis: axis, ...answer}, {dataset, max_grad_norm, clipping_fn, evaluations}, {data_sets: sets}) {
  return {...answer, ...axis, ...sets[dataset], max_grad_norm, clipping_fn, evaluations};
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
  return spentAt({curve}, Math.min(step + 1 / sample_rate, curve.steps.at(-1)));
}

/** ε that the server lists for the first step at or after a step, null beyond the last. */
export function spentAt({curve}, step) {
  const index = curve ? curve.steps.findIndex((listed) => listed >= step) : -1;
  return index < 0 ? null : curve.epsilon[index];
}
