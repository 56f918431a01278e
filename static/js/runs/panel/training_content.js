/** What the panel shows of a training, beside its log. */

import {FILTER, chartPlan} from "../../charts/plan.js";
import {terms} from "../../forms/plan_panel.js";
import {startOf} from "../../lib/format.js";

/**
 * @param {Record<string, any>} run as the API shows it, with its config
 * @param {Record<string, any>} plan
 * @param {Record<string, any>} catalogue
 */
export function trainingContent(run, plan, catalogue) {
  const {config} = run;
  return {
    plan: chartPlan(plan, config, catalogue),
    title: `Run of ${startOf(run.created_at)}`,
    file: `run-${run.id.slice(0, 6)}`,
    terms: terms(plan, catalogue),
    config,
    model: config.model,
    twin: config.private ? run.links.twin : null,
    recount: plan.accountant === FILTER ? null : {url: run.links.epsilon, plan, config, catalogue},
  };
}
