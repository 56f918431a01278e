/**
 * Chart of the mean squared error of noisy gradient descent against ε spent; not private. The server sends axes,
 * baselines, colours and labels with the plan, and uses them in its drawings.
 *
 * @typedef {object} Point an evaluation of the log; a null error is infinite
 * @property {number} step
 * @property {number} epsilon
 * @property {number | null} mse_median over the repetitions
 * @property {number | null} mse_low 5th percentile
 * @property {number | null} mse_high 95th percentile
 *
 * @typedef {object} ErrorAxes see error_axes.py
 * @property {number} epsilon
 * @property {[number, number]} error
 * @property {[number, string][]} ticks
 * @property {{error: number, words: string, colour: string, is_at_end: boolean}[]} baselines
 * @property {string} name of the error axis
 * @property {string} colour
 *
 * @typedef {object} DescentView
 * @property {Point[]} points
 * @property {import("./panel.js").DescentPlan} plan
 * @property {{width: number, height: number}} size
 */

import {decimals, integer, roundUp} from "../../../../static/js/lib/format.js";
import {axisName, baseLayout, keyAxis, strong, valueAxis, words} from "../../../../static/js/charts/base.js";
import {niceTicks} from "../../../../static/js/charts/ticks.js";

const MARGIN = {l: 52, r: 16, t: 28, b: 44};
const NARROW = 480;
const BEYOND = 2; // upper limit of the band, in lengths of the axis; replaces infinite values

/** Error as text. @param {number | null | undefined} value null: infinite */
export function mse(value) {
  if (value === null || value === undefined) return "∞";
  if (value < 10) return decimals(value, 4);
  return value < 1e6 ? integer(value) : "> 10⁶";
}

/** Pure: Plotly traces and layout of a view. @param {DescentView} view */
export function figure(view, color) {
  const {plan, size} = view;
  const {axes} = plan;
  const right = axes.epsilon * 1.02;
  return {
    traces: [...band(view, color), median(view, color)],
    layout: {
      ...baseLayout(color, size, MARGIN),
      xaxis: keyAxis(color, [0, right], {tickvals: niceTicks(right, 5), unifiedhovertitle: {text: "Mean squared error"}}),
      yaxis: valueAxis(color, axes.error, {tickvals: axes.ticks.map(([value]) => value), ticktext: axes.ticks.map(([, text]) => text)}),
      shapes: axes.baselines.map((line) => baseline(line, color)),
      annotations: labels(view, color),
    },
  };
}

/** Edges of the band, limited to `BEYOND` axis lengths because an infinite error cannot be drawn. */
function band({points, plan: {axes}}, color) {
  const edge = {type: "scatter", mode: "lines", x: points.map((point) => point.epsilon), hoverinfo: "skip", line: {width: 0}};
  const cut = (value) => Math.min(value ?? Infinity, axes.error[1] * BEYOND);
  return [
    {...edge, y: points.map((point) => cut(point.mse_low))},
    {...edge, y: points.map((point) => cut(point.mse_high)), fill: "tonexty", fillcolor: color(`--wash-${axes.colour}`)},
  ];
}

function median({points, plan: {axes}}, color) {
  return {
    type: "scatter",
    mode: "lines",
    name: "median",
    x: points.map((point) => point.epsilon),
    y: points.map((point) => point.mse_median),
    customdata: points.map(hoverText),
    hovertemplate: "%{customdata}<extra></extra>",
    line: {color: color(`--series-${axes.colour}`), width: 2.25},
  };
}

function hoverText({step, epsilon, mse_median, mse_low, mse_high}) {
  return `${mse(mse_median)} (${mse(mse_low)} – ${mse(mse_high)}) · ε ${roundUp(epsilon)} · step ${integer(step)}`;
}

function baseline({error, colour}, color) {
  return {type: "line", xref: "paper", x0: 0, x1: 1, y0: error, y1: error, line: {color: color(`--series-${colour}`), width: 1.25, dash: "dash"}};
}

function labels({points, plan: {axes}, size}, color) {
  const indent = size.width < NARROW ? 4 : 60;
  const beside = ({error, words: text, is_at_end: isAtEnd}) =>
    words(`${text}, ${mse(error)}`, color("--text-twin"), {
      xref: "paper",
      ...(isAtEnd ? {x: 1, xanchor: "right", xshift: -4} : {x: 0, xanchor: "left", xshift: indent}),
      y: error,
      yanchor: "bottom",
    });
  return [
    words(axes.name, color("--ink-3"), {xref: "paper", x: 0, xanchor: "left", xshift: -MARGIN.l, yref: "paper", y: 1, yanchor: "bottom", yshift: 7}),
    axisName("ε spent", color),
    ...axes.baselines.map(beside),
    ...last(points, axes, color),
  ];
}

/** Label of the newest median, at the end of its line. */
function last(points, {epsilon, error, colour}, color) {
  const point = points.findLast(({mse_median: value}) => value !== null && value <= error[1]);
  if (!point) return [];
  const isLeft = point.epsilon < epsilon / 2;
  const isHigh = 2 * point.mse_median > error[0] + error[1]; // so that the label is on the side away from the baseline
  const across = isLeft ? {xanchor: "left", xshift: 8} : {xanchor: "right", xshift: 0};
  const up = isHigh ? {yanchor: "top", yshift: -6} : {yanchor: "bottom", yshift: 6};
  const place = {x: point.epsilon, y: point.mse_median, ...across, ...up};
  return [strong(`median, ${mse(point.mse_median)}`, color(`--text-${colour}`), place)];
}

/** Heading for the newest numbers. @param {Point[]} points */
export function conclusion(points, {steps, repetitions, nonprivate_mse, trivial_mse}) {
  const point = points.at(-1);
  if (!point) return "Error as the budget is spent";
  const progress = `After ${integer(point.step)} of ${integer(steps)} steps, ε = ${roundUp(point.epsilon)}`;
  const of = repetitions === 1 ? "the error is" : `the median error of ${integer(repetitions)} descents is`;
  return `${progress}, ${of} ${mse(point.mse_median)}: ${beside(point.mse_median, nonprivate_mse, trivial_mse)}`;
}

function beside(value, nonprivate, trivial) {
  if (value === null) return "it diverges";
  if (value >= trivial) return `worse than always answering the mean (${mse(trivial)})`;
  return `${decimals((100 * (value - nonprivate)) / (trivial - nonprivate), 0)} % of the way from no privacy (${mse(nonprivate)}) to no model (${mse(trivial)})`;
}
