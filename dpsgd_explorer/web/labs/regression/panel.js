/** Status bar and chart of one noisy gradient descent, live or replayed. */

import {decimals, exponential, roundUp, startOf} from "../../../../static/js/lib/format.js";
import {RunLog} from "../../../../static/js/runs/log/run_log.js";
import {BasePanel} from "../../../../static/js/runs/panel/base_panel.js";
import {conclusion, figure, mse} from "./chart.js";

const NAMES = ["step", "epsilon", "seconds", "mse_median", "mse_low", "mse_high"];
const HEADS = ["Step", "ε spent", "Seconds", "MSE, median", "5 %", "95 %"];

/**
 * Panel content of a descent, except for its log.
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

export class DescentPanel extends BasePanel {
  /** @param {HTMLElement} root */
  constructor(root) {
    super(root, reached);
  }

  paint() {
    const {plan, terms, file, log = new RunLog()} = this.content;
    const points = log.evaluations;
    this.charts.descent.update({
      figure: (color) => figure({points, plan, size: this.charts.descent.size}, color),
      conclusion: conclusion(points, plan),
      table: () => table(points),
      note: terms,
      file,
    });
  }
}

/** Cells of the status bar in addition to step and ε. */
function reached(log) {
  const last = log?.evaluations.at(-1);
  const diverged = log?.steps.at(-1)?.diverged;
  return {
    error: last ? mse(last.mse_median) : "–",
    band: last ? `${mse(last.mse_low)} – ${mse(last.mse_high)}` : "",
    diverged: diverged ? `, ${diverged} diverged` : "",
  };
}

function table(points) {
  const values = points.map((point) => NAMES.map((name) => point[name]));
  const rows = values.map(([step, epsilon, seconds, ...errors]) => [step, roundUp(epsilon, 4), decimals(seconds), ...errors.map(mse)]);
  return {caption: "Mean squared error as the budget is spent, not private", names: NAMES, heads: HEADS, rows, values};
}
