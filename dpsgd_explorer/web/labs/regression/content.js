/** Panel content of a noisy gradient descent, except for its log. */

import {exponential, startOf} from "../../../../static/js/lib/format.js";

/**
 * @typedef {object} DescentPlan
 * @property {number} steps
 * @property {number} epsilon after all steps
 * @property {string} budget_text `epsilon` rounded up, as text
 * @property {number} repetitions
 * @property {number} nonprivate_mse
 * @property {number} trivial_mse
 */

/**
 * @param {Record<string, any>} run from the API
 * @param {Record<string, any>} plan sent with the page
 */
export function descentContent(run, plan) {
  return {
    plan: {...plan, budget: plan.epsilon, budget_text: plan.epsilon_text},
    title: `Run of ${startOf(run.created_at)}`,
    file: `run-${run.id.slice(0, 6)}`,
    terms: `ε at δ = ${exponential(plan.delta)}, ${plan.relation}, ${plan.status}; the errors are not private`,
  };
}
