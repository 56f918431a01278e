/** The axes of the accuracy chart: their ranges and ticks, where a point lies on them, and the line of the baseline. */

import {percent} from "../lib/format.js";
import {valueAxis, words} from "./base.js";
import {FILTER, epochAt, spentAt} from "./plan.js";

const BEYOND = 1.1; // the axis goes on past the budget, so that the wall is seen as one
const TICKS = [99, 98, 95, 90, 85, 80, 70, 75, 60, 50, 0]; // percent right; the first of those that would touch
const APART = 0.08; // of the axis: ticks closer than that touch
const MOST = 99.5; // percent: one in two hundred wrong

export const SCALE_WORDS = "log of the error";

/**
 * The accuracy axis, known before the run: what a working run reaches. It opens as far as the points need.
 * @param {{accuracy_floor: number, accuracy_ceiling: number}} catalogue
 * @param {{test_accuracy: number}[]} points of the run and of what is drawn beside it
 * @returns {[number, number]} in percent
 */
export function accuracyRange({accuracy_floor: floor, accuracy_ceiling: ceiling}, points) {
  const shares = points.map((point) => 100 * point.test_accuracy);
  const [low, high] = [Math.min(100 * floor, ...shares), Math.max(100 * ceiling, ...shares)];
  return [low < 100 * floor ? 10 * Math.floor(low / 10) : 100 * floor, high > 100 * ceiling ? MOST : 100 * ceiling];
}

/**
 * Where a percentage lies on the axis; what is beyond its end lies at the end.
 * @param {number} percent @param {[number, number]} range
 */
export function height(percent, [, ceiling]) {
  return -Math.log10(1 - Math.min(percent, ceiling) / 100);
}

/** The percentage at a place on the axis, where `height` puts it. @param {number} place */
export function accuracyOf(place) {
  return 100 * (1 - 10 ** -place);
}

/** @param {{test_accuracy: number}} point @param {[number, number]} range */
export function heightOf({test_accuracy}, range) {
  return height(100 * test_accuracy, range);
}

/** The part of the axis below a point, from 0 to 1. @param {{test_accuracy: number}} point @param {[number, number]} range */
export function shareOf(point, range) {
  const [floor, ceiling] = range.map((end) => height(end, range));
  return (heightOf(point, range) - floor) / (ceiling - floor);
}

/** @param {{range: [number, number]}} view */
export function yAxis({range}, color) {
  const shown = ticks(range);
  return valueAxis(color, range.map((end) => height(end, range)), {tickvals: shown.map((tick) => height(tick, range)), ticktext: shown.map(String)});
}

/** Round percentages within the axis, so far from each other. @param {[number, number]} range */
export function ticks(range, apart = APART) {
  const [floor, ceiling] = range.map((end) => height(end, range));
  const kept = [];
  for (const tick of [range[0], ...TICKS]) {
    const at = height(tick, range);
    if (tick >= range[0] && tick <= range[1] && kept.every((other) => Math.abs(height(other, range) - at) >= apart * (ceiling - floor))) kept.push(tick);
  }
  return kept.sort((a, b) => a - b);
}

const ABOVE = 26; // px from a point to the middle of its label above it
const UNDER = -22; // px from a point to the middle of its label below it
const LINE = 20; // px of a line of words

const isShown = ({baseline}, [floor]) => 100 * baseline > floor;

/** Curves rise from the baseline, so the room under it is free, unless it is at the foot of the drawing. */
const isLabelUnder = ({baseline}, range) => shareOf({test_accuracy: baseline}, range) > 0.1;

/** The line of the baseline, where the axis shows it. @param {import("./accuracy.js").AccuracyView} view */
export function baseline({plan, range}, color) {
  if (!isShown(plan, range)) return [];
  const y = height(100 * plan.baseline, range);
  return [{type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: {color: color("--rule-strong"), width: 1.25, dash: "dot"}}];
}

/** @param {import("./accuracy.js").AccuracyView} view @param {string} always "always ", or "" where there is no room for it */
export function baselineLabel({plan, range}, always, color) {
  if (!isShown(plan, range)) return [];
  const text = `${plan.guesses ? "guessing" : `${always}the majority class`}, ${percent(plan.baseline)}`;
  const [yanchor, yshift] = isLabelUnder(plan, range) ? ["top", -1] : ["bottom", 1];
  return [words(text, color("--ink-3"), {xref: "paper", x: 0.55, xanchor: "center", y: height(100 * plan.baseline, range), yanchor, yshift})];
}

/**
 * How many px above its point the label of a run is centred; it avoids the label of the baseline.
 * @param {import("./accuracy.js").AccuracyView} view @param {(place: number) => number} pixel px below the top of the drawing
 */
export function labelShift({plan, range}, last, pixel) {
  const isLow = shareOf(last, range) < 0.15;
  if (!isShown(plan, range)) return isLow ? ABOVE : UNDER;
  const middle = isLabelUnder(plan, range) ? -LINE / 2 : LINE / 2;
  const taken = pixel(heightOf(last, range)) - pixel(height(100 * plan.baseline, range)) + middle;
  if (!isLow && Math.abs(UNDER - taken) >= LINE) return UNDER;
  return Math.abs(ABOVE - taken) < LINE ? taken + LINE : ABOVE;
}

/**
 * The x of an evaluation on each axis; the names are the values of the axis switch. What spends nothing stands at
 * the ε that the plan has spent by the same step.
 */
export const X = {
  epsilon: (point, plan) => point.epsilon ?? point.drawn_at ?? spentAt(plan, point.step),
  step: (point) => point.step,
  epoch: (point, plan) => epochAt(plan, point.step),
  seconds: (point) => point.seconds,
};

/** What the horizontal axis measures, in words. @param {import("./accuracy.js").AccuracyView["axis"]} axis @param {import("./plan.js").Plan} plan */
export function axisWords(axis, plan) {
  if (axis !== "epsilon") return axis;
  return plan.accountant === FILTER ? "ε counted by the filter" : "ε spent";
}

/** Where the horizontal axis ends. */
export function axisEnd({axis, plan, seconds}) {
  if (axis === "epsilon") return plan.budget * BEYOND;
  if (axis === "step") return plan.steps * 1.02;
  if (axis === "epoch") return epochAt(plan, plan.steps) * 1.02;
  return seconds;
}

/** Where the budget ends on each axis; unknown in seconds. */
export function wallAt(axis, plan) {
  return {epsilon: plan.budget, step: plan.last_step, epoch: epochAt(plan, plan.last_step)}[axis];
}
