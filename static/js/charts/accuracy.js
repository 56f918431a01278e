/**
 * Chart of test accuracy against ε, steps, epochs or seconds.
 *
 * @typedef {object} AccuracyView
 * @property {import("../runs/log/run_log.js").Evaluation[]} evaluations
 * @property {import("./plan.js").Plan} plan
 * @property {"epsilon" | "step" | "epoch" | "seconds"} axis
 * @property {[number, number]} range percent, of the accuracy axis
 * @property {import("./ghosts.js").Ghost[]} [ghosts] other runs
 * @property {number | null} first_epsilon ε after step 1, null until known
 * @property {number} seconds end of the seconds axis
 * @property {{width: number, height: number}} size
 * @property {boolean} [print] if true, draws the ε ticks, which the gauge shows on the page
 */

import {decimals, decimalsUp, integer, percent, plural, roundUp} from "../lib/format.js";
import {SCALE_WORDS, X, axisEnd, axisWords, baseline, baselineWords, heightOf, wallAt, yAxis} from "./accuracy_axis.js";
import {axisName, baseLayout, keyAxis, thin, wall, words} from "./base.js";
import {ghostTraces, ghostWords, visible} from "./ghosts.js";
import {OVER_UNDER, SIDES, alongLine, annotated, wideWidth} from "./labels.js";
import {FILTER} from "./plan.js";
import {accuracyOf, height, niceTicks} from "./ticks.js";

const NARROW = 480; // px; a narrower chart has shorter texts
export const MARGIN = {l: 44, r: 16, t: 10, b: 10};
const ABOVE = 28; // px, top margin with the name of the axis
const BELOW = 44; // px, bottom margin with ticks and the axis name
const DOT = 6; // px, radius of the newest point
const PLACED = 250; // points of a line that labels are kept away from

/** Accuracy in percent at a height of the drawing. @param {AccuracyView} view @param {number} y px below its top */
export function accuracyAt(view, y) {
  const {t, b} = margin(view);
  const [floor, ceiling] = view.range.map((end) => height(end, view.range));
  const share = Math.min(1, Math.max(0, (y - t) / (view.size.height - t - b)));
  return accuracyOf(ceiling - share * (ceiling - floor));
}

/** Pure: Plotly traces and layout of a view. @param {AccuracyView} view */
export function figure(view, color) {
  const points = thin(view.evaluations, (point) => point.test_accuracy);
  const last = points.at(-1);
  const ghosts = ghostsOf(view, last);
  const named = annotated(...labels(view, points, ghosts, color), color("--ink-3"));
  return {
    traces: [...ghostTraces(view.ghosts ?? [], ghosts.shown, ghosts, color), ...traces(view, points, color)],
    layout: {
      ...baseLayout(color, view.size, margin(view)),
      xaxis: xAxis(view, color),
      yaxis: yAxis(view, color),
      shapes: [...budget(view, color), ...baseline(view, color), ...drop(view, last, color), ...named.shapes],
      annotations: [...axisLabels(view, color), ...named.annotations],
    },
  };
}

/** Visible points of the ghosts, and the functions that draw them. */
function ghostsOf(view, last) {
  const {axis, plan, range, ghosts = []} = view;
  const x = (point) => X[axis](point, plan);
  const place = axis === "seconds" ? x : ({step}) => step; // values of ε at one step may differ in their last digits
  const isAhead = (point) => !last || place(point) > place(last);
  return {x, range, hover: hoverText, shown: visible(ghosts, x, axisEnd(view), isAhead)};
}

/** Size of the plot in px, and the function from a point to px from its upper left corner. */
function pixels(view) {
  const {range, size, axis, plan} = view;
  const {l, r, t, b} = margin(view);
  const [floor, ceiling] = range.map((end) => height(end, range));
  const [width, high] = [size.width - l - r, size.height - t - b];
  const across = (value) => (width * value) / axisEnd(view);
  const down = (at) => (high * (ceiling - at)) / (ceiling - floor);
  return {width, height: high, across, down, at: (point) => [across(X[axis](point, plan)), down(heightOf(point, range))]};
}

function margin({axis, print = false}) {
  return {...MARGIN, t: print ? ABOVE : MARGIN.t, b: axis === "epsilon" && !print ? MARGIN.b : BELOW};
}

function traces(view, points, color) {
  const {plan, axis, range} = view;
  const line = plan.private ? "--series-private" : "--series-twin";
  const x = points.map((point) => X[axis](point, plan));
  const y = points.map((point) => heightOf(point, range));
  return [
    {
      type: "scatter",
      mode: "lines+markers",
      x,
      y,
      customdata: points.map(hoverText),
      hovertemplate: "%{customdata}<extra></extra>",
      line: {color: color(line), width: 2.25, dash: plan.private ? "solid" : "dash"},
      marker: {color: color(line), size: 5},
    },
    {
      type: "scatter",
      mode: "markers",
      x: x.slice(-1),
      y: y.slice(-1),
      hoverinfo: "skip",
      marker: {color: color(line), size: 11, line: {color: color("--surface"), width: 2}},
      cliponaxis: false,
    },
  ];
}

function hoverText({test_accuracy, epsilon, step, seconds}) {
  const spent = epsilon === null ? "no guarantee" : `ε ${roundUp(epsilon)}`;
  return `${percent(test_accuracy)} · ${spent} · step ${step}${seconds === null ? "" : ` · ${decimals(seconds, 1)} s`}`;
}

function xAxis(view, color) {
  const {axis, plan} = view;
  const range = [0, axisEnd(view)];
  const hover = {unifiedhovertitle: {text: "Test accuracy"}};
  if (axis !== "epsilon") return keyAxis(color, range, {...hover, tickvals: niceTicks(range[1])});
  const ticks = {tickvals: plan.ticks.map((tick) => tick.epsilon), ticktext: plan.ticks.map((tick) => tick.text)};
  const onGauge = {showticklabels: false, ticks: ""};
  return keyAxis(color, range, {...hover, ...ticks, ...(view.print ? {} : onGauge)});
}

/** Vertical line at the budget, and a shaded area beyond it. */
function budget(view, color) {
  const {axis, plan} = view;
  const end = wallAt(axis, plan);
  if (!plan.private || end === undefined) return [];
  const ground = {type: "rect", x0: end, x1: axisEnd(view), yref: "paper", y0: 0, y1: 1, line: {width: 0}};
  return [
    {...ground, fillcolor: color("--wash-budget"), layer: "below"},
    wall(end, {color: color("--series-budget"), width: 2.25}, {layer: "below"}),
  ];
}

/** Dotted line from the newest point down to the gauge. */
function drop({plan, axis, range}, last, color) {
  if (!last) return [];
  const x = X[axis](last, plan);
  const line = {color: color(plan.private ? "--series-private" : "--series-twin"), width: 1.25, dash: "2px,4px"};
  return [{type: "line", x0: x, x1: x, y0: height(range[0], range), y1: heightOf(last, range), line}];
}

function axisLabels(view, color) {
  return [
    ...(view.print ? [scaleName(color)] : []), // the page has it in the line under the heading
    ...(view.axis === "epsilon" && !view.print ? [] : [axisName(axisWords(view.axis, view.plan), color)]),
  ];
}

/** Labels, the most important first, and the lines and marks that they are kept away from. */
function labels(view, points, ghosts, color) {
  const {plan, axis, range} = view;
  const {width, height: high, across, down, at} = pixels(view);
  const own = points.map(at);
  const shown = ghosts.shown.map((line) => thin(line, (point) => point.test_accuracy, PLACED).map(at));
  const end = plan.private ? wallAt(axis, plan) : undefined;
  const wallLine = end === undefined ? [] : [[across(end), 0], [across(end), high]];
  const floorAt = 100 * plan.baseline > range[0] ? down(height(100 * plan.baseline, range)) : null;
  const floorLine = floorAt === null ? [] : [[0, floorAt], [width, floorAt]];
  const last = own.at(-1);
  const dots = [last, ...shown.filter((line) => line.length === 1).map(([dot]) => dot)].filter(Boolean);
  const lines = [thin(own, ([, y]) => y, PLACED), last ? [last, [last[0], high]] : [], wallLine, floorLine, ...shown];
  const text = {private: color("--text-private"), open: color("--text-twin"), muted: color("--ink-3")};
  const first = view.first_epsilon;
  return [[
    ...(last ? [{text: `${plan.private ? "private" : "without privacy"}, ${percent(points.at(-1).test_accuracy)}`, anchors: [last], mayCross: true, weight: 600, color: plan.private ? text.private : text.open}] : []),
    ...(wallLine.length ? [{text: `${plan.budget_word} ε = ${plan.budget_text}`, anchors: [0.9, 0.75, 0.55, 0.4, 0.2].map((share) => [across(end), share * high]), ways: SIDES, weight: 600, color: color("--text-budget")}] : []),
    ...ghostWords(view.ghosts ?? [], ghosts.shown, color).map((label, i) => ({...label, anchors: shown[i].length ? alongLine(shown[i]) : []})),
    ...(floorAt === null ? [] : [{text: baselineWords(view, view.size.width < NARROW ? "" : "always "), anchors: [0.6, 0.35, 0.75].map((share) => [share * width, floorAt]), ways: OVER_UNDER, color: text.muted}]),
    ...(axis === "epsilon" && first !== null && first >= 0.06 * plan.budget ? [{text: `step 1: ε ${decimalsUp(first, plan.digits)}`, anchors: [[across(first), high]], ways: [[1, -1], [-1, -1]], color: text.muted}] : []),
  ], {width, height: high, lines, widthOf: view.print ? wideWidth : undefined, boxes: dots.map(([x, y]) => ({x: x - DOT, y: y - DOT, w: 2 * DOT, h: 2 * DOT}))}];
}

/** A saved picture has no line under its heading, so the axis names its scale. */
function scaleName(color) {
  return words(`test accuracy, %; ${SCALE_WORDS}`, color("--ink-3"), {xref: "paper", x: 0, xanchor: "left", xshift: -36, yref: "paper", y: 1, yanchor: "bottom", yshift: 7});
}

/**
 * Heading: without numbers while the run moves, because the label, the status bar and the gauge have them.
 * @param {import("../runs/log/run_log.js").RunLog} log
 * @param {import("./plan.js").Plan} plan
 * @param {import("../runs/log/run_log.js").Evaluation[]} [recorded] shown before a run starts
 */
export function conclusion(log, plan, recorded) {
  const last = log.evaluations.at(-1);
  if (!last && recorded) return `Recorded: ${percent(recorded.at(-1).test_accuracy)} at ε = ${plan.budget_text}. Run repeats it`;
  if (!last && log.isFinal) return "The run ended before its accuracy was measured";
  if (!last || log.moves) return plan.private ? "Test accuracy as ε is spent" : "Test accuracy, without privacy";
  const reached = percent(last.test_accuracy);
  if (last.epsilon === null) return `${reached} without privacy after ${plural(last.step, "step")}`;
  if (plan.accountant === FILTER) return withinBudget(log, plan, last, reached);
  if (log.state === "done") return finished(log, last, reached);
  const spent = `${reached} at ε = ${decimalsUp(last.epsilon, plan.digits)}`;
  if (log.isFinal) return `${spent}, ${whereItEnded(log, plan, last)}`;
  return `${spent} of ${plan.budget_text}`;
}

/** A privacy filter guarantees the whole budget, not the ε that it has counted so far. */
function withinBudget(log, plan, last, reached) {
  if (!log.isFinal) return `${reached}; the filter has counted ε = ${decimalsUp(last.epsilon, plan.digits)} of ${plan.budget_text}`;
  const within = `${reached} within the budget ε = ${plan.budget_text}`;
  return log.state === "done" ? within : `${within}, ${whereItEnded(log, plan, last)}`;
}

/** A stopped run rarely ends right after an evaluation. */
function whereItEnded(log, plan, last) {
  const ended = `the run ended after ${integer(log.latest.step)} of ${plural(plan.steps, "step")}`;
  return log.latest.step === last.step ? `where ${ended}` : `measured at step ${integer(last.step)}; ${ended}`;
}

function finished(log, last, reached) {
  const half = log.evaluations.findLast((point) => point.epsilon <= last.epsilon / 2);
  const start = `${reached} at ε = ${roundUp(last.epsilon)}`;
  if (!half || log.evaluations.length < 8) return start;
  const gain = 100 * (last.test_accuracy - half.test_accuracy);
  if (gain < 0.05) return `${start}; the second half of that ε bought nothing`;
  return `${start}; the second half of that ε bought ${points(gain)}`;
}

function points(gain) {
  const text = decimals(gain, 1);
  return `${text} ${text === "1.0" ? "point" : "points"}`;
}

/**
 * Evaluations as numbers and as text.
 * @param {import("../runs/log/run_log.js").RunLog} log @param {import("./plan.js").Plan} plan
 */
export function table(log, plan) {
  const names = ["step", "epsilon", "seconds", "test_accuracy", "test_loss"];
  const values = log.evaluations.map((point) => names.map((name) => point[name]));
  const rows = values.map(([step, epsilon, seconds, accuracy, loss]) => [step, decimalsUp(epsilon, plan.digits), decimals(seconds), percent(accuracy, 2), decimals(loss, 4)]);
  return {caption: "Test accuracy after each evaluation", names, heads: ["Step", "ε spent", "Seconds", "Accuracy", "Test loss"], rows, values};
}
