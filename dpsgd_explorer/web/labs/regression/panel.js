/** Status bar and chart of one noisy gradient descent, live or replayed. */

import {roundUp} from "../../../../static/js/lib/format.js";
import {RunLog} from "../../../../static/js/runs/log/run_log.js";
import {conclusion, figure, mse} from "./chart.js";
import {BasePanel} from "../../../../static/js/runs/panel/base_panel.js";

const NAMES = ["step", "epsilon", "seconds", "mse_median", "mse_low", "mse_high"];
const HEADS = ["Step", "ε spent", "Seconds", "MSE, median", "5 %", "95 %"];
const EMPTY = new RunLog();

/** @typedef {Pick<import("../../../../static/js/runs/panel/run_panel.js").PanelContent, "log" | "whole" | "title" | "file" | "terms" | "activity"> & {plan: import("./content.js").DescentPlan}} PanelContent */

export class DescentPanel extends BasePanel {
  /** @param {HTMLElement} root */
  constructor(root) {
    super(root, reached);
  }

  paint() {
    const {log, plan, terms, file} = this.content;
    const points = (log ?? EMPTY).evaluations;
    const view = {points, plan, size: this.charts.descent.size};
    this.charts.descent.update({
      figure: (color) => figure(view, color),
      conclusion: conclusion(points, plan),
      table: () => table(points),
      note: terms,
      file,
      settled: log?.isFinal ?? true,
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
  const rows = values.map(([step, epsilon, seconds, ...errors]) => [step, roundUp(epsilon, 4), seconds.toFixed(2), ...errors.map(mse)]);
  return {caption: "Mean squared error as the budget is spent, not private", names: NAMES, heads: HEADS, rows, values};
}
