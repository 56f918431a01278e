/** Audit of a loop as a chart, a table and text. Pure functions; the server computed all values of ε. */

import {roundDown, roundUp} from "../../../../static/js/lib/format.js";
import {disc, line, rule, text} from "../../../../static/js/lib/svg.js";

/**
 * @typedef {object} Point
 * @property {number} step
 * @property {number} epsilon_lower
 * @property {number} epsilon_promised
 *
 * @typedef {object} Audited current state of an audit
 * @property {Point[]} points in order
 * @property {string} refused error message of PrivacyEngine; "" without one
 * @property {string} error message that stopped the loop; "" without one
 * @property {string} seen_by the check that detected the bug; "" while the loop runs
 */

const EDGES = {left: 34, right: 12, top: 30, bottom: 40};
const SPARE = 1.15; // end of the axis, relative to the highest point
const TICKS = 4;

/** End of the ε axis. */
export function top({points}, promise) {
  return SPARE * Math.max(promise.epsilon, ...points.map(({epsilon_lower}) => epsilon_lower));
}

/** About four round values, starting with 0. */
export function ticks(high) {
  const rough = high / TICKS;
  const size = 10 ** Math.floor(Math.log10(rough));
  const gap = [1, 2, 5, 10].map((times) => times * size).find((step) => step >= rough);
  return Array.from({length: Math.floor(high / gap) + 1}, (_, i) => Number((i * gap).toPrecision(6)));
}

/** Marks of the chart. @param {import("../../../../static/js/lib/svg.js").Chart} chart @param {Audited} audited */
export function marks(chart, audited, {promise, steps}) {
  const {points} = audited;
  const high = top(audited, promise);
  const {left, right, top: above, bottom} = EDGES;
  chart.frame([0, steps], [0, high], [left, above, chart.width - right, chart.height - bottom]);
  const {x, y} = chart;
  const start = {step: 0, epsilon_lower: 0, epsilon_promised: 0};
  const all = points.length ? [start, ...points] : [];
  const last = points.at(-1);
  const isHighest = points.every(({epsilon_lower}) => epsilon_lower <= last.epsilon_lower);
  return [
    ...ticks(high).flatMap((value) => [
      rule([left, y(value)], [chart.width - right, y(value)]),
      text([left - 8, y(value) + 4], value, "", "end"),
    ]),
    text([0, above - 14], "ε"),
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => text([x(share * steps), chart.height - bottom + 18], Math.round(share * steps), "", "middle")),
    text([chart.width - right, chart.height - 4], "step", "", "end"),
    line([[left, y(promise.epsilon)], [chart.width - right, y(promise.epsilon)]], "s-budget"),
    text([left + 6, y(promise.epsilon) - 7], `promised: ${roundUp(promise.epsilon)}`, "budget halo"),
    line(all.map((point) => [x(point.step), y(point.epsilon_promised)]), "s-budget thin"),
    line(all.map((point) => [x(point.step), y(point.epsilon_lower)]), "s-attack"),
    ...points.map((point) => disc([x(point.step), y(point.epsilon_lower)], 4, "f-attack")),
    ...(last ? [text([x(last.step) - 6, y(last.epsilon_lower) + (isHighest ? -9 : 20)], `proven: ${roundDown(last.epsilon_lower)}`, "attack halo", "end")] : []),
  ];
}

/** Heading: the check that detected the bug, with its number. @param {Audited} audited */
export function conclusion({points, refused, error, seen_by}, {promise}) {
  const last = points.at(-1);
  if (!seen_by) return last ? `After ${last.step} steps ε ≥ ${roundDown(last.epsilon_lower)} is proven` : "The loop runs";
  if (refused) return "PrivacyEngine rejects the loop";
  if (error) return "PyTorch stops the loop with an error";
  if (!last) return "Nothing was run";
  const both = `ε ≥ ${roundDown(last.epsilon_lower)} is proven, ε = ${roundUp(promise.epsilon)} was promised`;
  return seen_by === "audit" ? `Caught: ${both}` : `Nothing shows: ${both}`;
}

/** Message that rejected or stopped the loop, and its source; null without one. */
export function said({refused, error}) {
  if (refused) return {speaker: "PrivacyEngine, attached to this loop:", words: refused};
  if (error) return {speaker: "PyTorch, at the first step:", words: error};
  return null;
}

/** Table of the audit. @param {Audited} audited */
export function table({points}) {
  return {
    caption: "Bound on ε and promise",
    heads: ["Step", "Proven ε, at least", "Promised ε"],
    rows: points.map((point) => [point.step, roundDown(point.epsilon_lower), roundUp(point.epsilon_promised)]),
  };
}

/**
 * State of an audit from a log. @param {import("../../../../static/js/runs/log/run_log.js").RunLog} log @returns
 * {Audited}
 */
export function audited({phase, evaluations, end}) {
  return {points: evaluations, refused: phase?.refused ?? "", error: end?.error ?? "", seen_by: end?.seen_by ?? ""};
}

/** Recorded audit after its first `count` points. @param {Audited} recorded */
export function until(recorded, count) {
  const isWhole = count >= recorded.points.length;
  return isWhole ? recorded : {...recorded, points: recorded.points.slice(0, count), error: "", seen_by: ""};
}
