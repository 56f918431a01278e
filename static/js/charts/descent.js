/**
 * Mean squared error of noisy gradient descent against the ε spent; the errors are on a
 * logarithmic axis and not private.
 *
 * @typedef {object} Point an evaluation of the log; null: infinite
 * @property {number} step
 * @property {number} epsilon
 * @property {number | null} mse_median over the repetitions
 * @property {number | null} mse_low 5 %
 * @property {number | null} mse_high 95 %
 *
 * @typedef {object} DescentView
 * @property {Point[]} points
 * @property {Point[]} whole the points that the axes are made for
 * @property {import("../runs/descent_scene.js").DescentPlan} plan
 * @property {{width: number, height: number}} size
 */

import {integer, roundUp} from "../lib/format.js";
import {axisName, baseLayout, keyAxis, strong, unitName, valueAxis, words} from "./base.js";
import {niceTicks} from "./scale.js";

const MARGIN = {l: 52, r: 16, t: 28, b: 44};
const NARROW = 480;
const FAR = 30; // the axis of errors ends at most so many times above the trivial one
const [BELOW, ABOVE] = [1.35, 1.15]; // ratios: room for the words beside the lines
const CLOSE = 20; // a range of a smaller ratio gets more ticks

/** An error as it is printed. @param {number | null | undefined} value null: infinite */
export function mse(value) {
  if (value === null || value === undefined) return "∞";
  if (value < 10) return value.toFixed(4);
  return value < 1e6 ? integer(value) : "> 10⁶";
}

/** Where the axis of errors begins and ends. */
export function errorRange(points, {nonprivate_mse, trivial_mse}) {
  const highest = Math.max(trivial_mse, ...points.map((point) => point.mse_high ?? Infinity));
  return [nonprivate_mse / BELOW, Math.min(highest * ABOVE, FAR * trivial_mse)];
}

/** Round values within a range, spread by ratios. @returns {number[]} */
export function ratioTicks([low, high]) {
  const ticks = [];
  const factors = high / low < CLOSE ? [1, 1.5, 2, 3, 5, 7] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    for (const factor of factors) ticks.push(Number((factor * 10 ** power).toPrecision(12)));
  }
  return ticks.filter((tick) => tick >= low && tick <= high);
}

/** Pure: a view in, Plotly traces and layout out. @param {DescentView} view */
export function figure(view, color) {
  const {plan, size, whole} = view;
  const range = errorRange(whole, plan);
  const ticks = ratioTicks(range);
  return {
    traces: [...band(view, range, color), median(view, color)],
    layout: {
      ...baseLayout(color, size, MARGIN),
      xaxis: keyAxis(color, [0, plan.epsilon * 1.02], {tickvals: niceTicks(plan.epsilon * 1.02, 5), unifiedhovertitle: {text: "Mean squared error"}}),
      yaxis: valueAxis(color, range.map(Math.log10), {type: "log", tickvals: ticks, ticktext: ticks.map(String)}),
      shapes: [baseline(plan.nonprivate_mse, color), baseline(plan.trivial_mse, color)],
      annotations: labels(view, range, color),
    },
  };
}

/** The band's edges, cut at the axis: it is logarithmic, and an infinite error has no place. */
function band({points}, [, top], color) {
  const edge = {type: "scatter", mode: "lines", x: points.map((point) => point.epsilon), hoverinfo: "skip", line: {width: 0}};
  const cut = (value) => Math.min(value ?? Infinity, top * 2);
  return [
    {...edge, y: points.map((point) => cut(point.mse_low))},
    {...edge, y: points.map((point) => cut(point.mse_high)), fill: "tonexty", fillcolor: color("--chart-fill")},
  ];
}

function median({points}, color) {
  return {
    type: "scatter",
    mode: "lines",
    name: "median",
    x: points.map((point) => point.epsilon),
    y: points.map((point) => point.mse_median),
    customdata: points.map(hoverText),
    hovertemplate: "%{customdata}<extra></extra>",
    line: {color: color("--series-private"), width: 2.25},
  };
}

function hoverText({step, epsilon, mse_median, mse_low, mse_high}) {
  return `${mse(mse_median)} (${mse(mse_low)} – ${mse(mse_high)}) · ε ${roundUp(epsilon)} · step ${integer(step)}`;
}

function baseline(y, color) {
  return {type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: {color: color("--rule-strong"), width: 1.25, dash: "dot"}};
}

function labels({points, plan, size}, range, color) {
  const narrow = size.width < NARROW;
  const at = (value, text, place) => words(text, color("--ink-3"), {xref: "paper", x: 1, xanchor: "right", y: Math.log10(value), ...place});
  return [
    unitName("MSE", color),
    axisName("ε spent", color),
    at(plan.trivial_mse, `${narrow ? "" : "always the mean label, "}${mse(plan.trivial_mse)}`, {yanchor: "bottom", yshift: 1}),
    at(plan.nonprivate_mse, `without privacy, ${mse(plan.nonprivate_mse)}`, {yanchor: "top", yshift: -1}),
    ...last(points, plan, range, color),
  ];
}

/** The newest median, beside the end of its line. */
function last(points, plan, [, top], color) {
  const point = points.findLast(({mse_median: value}) => value !== null && value <= top);
  if (!point) return [];
  const left = point.epsilon < plan.epsilon / 2;
  const place = {x: point.epsilon, xanchor: left ? "left" : "right", xshift: left ? 8 : 0, y: Math.log10(point.mse_median), yanchor: "bottom", yshift: 6};
  return [strong(`median, ${mse(point.mse_median)}`, color("--text-private"), place)];
}

/** What the numbers on screen say. @param {Point[]} points */
export function conclusion(points, {steps, repetitions, nonprivate_mse, trivial_mse}) {
  const point = points.at(-1);
  if (!point) return "Error as the budget is spent";
  const at = `After ${integer(point.step)} of ${integer(steps)} steps, ε = ${roundUp(point.epsilon)}`;
  const of = repetitions === 1 ? "the error is" : `the median error of ${integer(repetitions)} descents is`;
  return `${at}, ${of} ${mse(point.mse_median)}: ${beside(point.mse_median, nonprivate_mse, trivial_mse)}`;
}

function beside(value, nonprivate, trivial) {
  if (value === null) return "it diverges";
  if (value >= trivial) return `worse than always answering the mean (${mse(trivial)})`;
  return `${((100 * (value - nonprivate)) / (trivial - nonprivate)).toFixed(0)} % of the way from no privacy (${mse(nonprivate)}) to no model (${mse(trivial)})`;
}
