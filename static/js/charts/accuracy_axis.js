/** Axes of the accuracy chart: ranges, ticks, positions of points, and the line of the baseline. */

import {percent} from "../lib/format.js";
import {valueAxis} from "./base.js";
import {FILTER, epochAt, spentAt} from "./plan.js";
import {errorTicks, height} from "./ticks.js";

const BEYOND = 1.1; // end of the ε axis in budgets, so that the budget's line is inside the chart
export const SCALE_WORDS = "log of the error";

/** @param {{test_accuracy: number}} point @param {[number, number]} range */
export function heightOf({test_accuracy}, range) {
  return height(100 * test_accuracy, range);
}

/** @param {{range: [number, number]}} view */
export function yAxis({range}, color) {
  const shown = errorTicks(range);
  return valueAxis(color, range.map((end) => height(end, range)), {tickvals: shown.map((tick) => height(tick, range)), ticktext: shown.map(String)});
}

const isShown = ({baseline}, [floor]) => 100 * baseline > floor;

/** Line of the baseline, if the axis contains it. @param {import("./accuracy.js").AccuracyView} view */
export function baseline({plan, range}, color) {
  if (!isShown(plan, range)) return [];
  const y = height(100 * plan.baseline, range);
  return [{type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: {color: color("--rule-strong"), width: 1.25, dash: "dot"}}];
}

/** Label of the baseline. @param {import("./accuracy.js").AccuracyView} view @param {string} always "always ", or "" */
export function baselineWords({plan}, always) {
  return `${plan.guesses ? "guessing" : `${always}the majority class`}, ${percent(plan.baseline)}`;
}

/**
 * Functions from an evaluation to its x, by the value of the axis switch. Runs without privacy are drawn at the ε
 * that the plan has spent by that step.
 */
export const X = {
  epsilon: (point, plan) => point.epsilon ?? point.drawn_at ?? spentAt(plan, point.step),
  step: (point) => point.step,
  epoch: (point, plan) => epochAt(plan, point.step),
  seconds: (point) => point.seconds,
};

/**
 * Name of the horizontal axis.
 * @param {import("./accuracy.js").AccuracyView["axis"]} axis @param {import("./plan.js").Plan} plan
 */
export function axisWords(axis, plan) {
  if (axis !== "epsilon") return axis;
  return plan.accountant === FILTER ? "ε counted by the filter" : "ε spent";
}

/** End of the horizontal axis. */
export function axisEnd({axis, plan, seconds}) {
  if (axis === "epsilon") return plan.budget * BEYOND;
  if (axis === "step") return plan.steps * 1.02;
  if (axis === "epoch") return epochAt(plan, plan.steps) * 1.02;
  return seconds;
}

/** Position of the budget's line on each axis; undefined for seconds. */
export function wallAt(axis, plan) {
  return {epsilon: plan.budget, step: plan.last_step, epoch: epochAt(plan, plan.last_step)}[axis];
}
