/** The accuracy of guessing, or of always answering the majority class: its line, its label, and the room they need. */

import {percent} from "../lib/format.js";
import {height, heightOf, shareOf} from "./accuracy_axis.js";
import {words} from "./base.js";

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
