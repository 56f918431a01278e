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

import {decimalsUp, integer, percent, plural, roundUp} from "../lib/format.js";
import {SCALE_WORDS, X, axisEnd, axisWords, baseline, baselineLabel, heightOf, labelShift, shareOf, wallAt, yAxis} from "./accuracy_axis.js";
import {axisName, baseLayout, keyAxis, strong, thin, unitName, wall, words} from "./base.js";
import {ghostLabels, ghostTraces, visible} from "./ghosts.js";
import {FILTER} from "./plan.js";
import {accuracyOf, height, niceTicks} from "./ticks.js";

const NARROW = 480; // px; a narrower chart has shorter texts
export const MARGIN = {l: 44, r: 16, t: 28, b: 10};
const BELOW = 44; // px, bottom margin with ticks and the axis name
const LABEL = 20; // px, height of a line of text
const CLEAR = 0.25; // share of the chart's height between two labels

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
  return {
    traces: [...ghostTraces(view.ghosts ?? [], ghosts.shown, ghosts, color), ...traces(view, points, color)],
    layout: {
      ...baseLayout(color, view.size, margin(view)),
      xaxis: xAxis(view, color),
      yaxis: yAxis(view, color),
      shapes: [...budget(view, color), ...baseline(view, color), ...drop(view, last, color)],
      annotations: [...labels(view, last, color), ...(view.size.width < NARROW ? [] : ghostLabels(view.ghosts ?? [], ghosts.shown, ghosts, color))],
    },
  };
}

/** Layout of the ghosts: their positions, and the area for their labels. */
function ghostsOf(view, last) {
  const {axis, plan, range, ghosts = []} = view;
  const x = (point) => X[axis](point, plan);
  const place = axis === "seconds" ? x : ({step}) => step; // values of ε at one step may differ in their last digits
  const isAhead = (point) => !last || place(point) > place(last);
  const {length, pixel} = pixels(view);
  const labelEnd = last && x(last) > axisEnd(view) / 2 ? pixel(heightOf(last, range)) + 2 * LABEL : 0;
  return {x, range, pixel, top: labelEnd, floor: 0.9 * length - LABEL, end: wallAt(axis, plan) ?? axisEnd(view), hover: hoverText, shown: visible(ghosts, x, axisEnd(view), isAhead)};
}

/** Height of the plot in px, and the function from a height of the axis to px below the plot's top. */
function pixels({range, size, ...view}) {
  const {t, b} = margin(view);
  const [floor, ceiling] = range.map((end) => height(end, range));
  const length = size.height - t - b;
  return {length, pixel: (at) => (length * (ceiling - at)) / (ceiling - floor)};
}

function margin({axis, print = false}) {
  return {...MARGIN, b: axis === "epsilon" && !print ? MARGIN.b : BELOW};
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
  return `${percent(test_accuracy)} · ${spent} · step ${step}${seconds === null ? "" : ` · ${seconds.toFixed(1)} s`}`;
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

function labels(view, last, color) {
  return [
    view.print ? scaleName(color) : unitName("%", color),
    ...(view.axis === "epsilon" && !view.print ? [] : [axisName(axisWords(view.axis, view.plan), color)]),
    ...budgetLabel(view, last, color),
    ...baselineLabel(view, view.size.width < NARROW ? "" : "always ", color),
    ...pointLabel(view, last, color),
    ...firstStep(view, color),
  ];
}

function budgetLabel(view, last, color) {
  const {axis, plan, size, range, seconds} = view;
  if (!plan.private || axis === "seconds") return [];
  const x = wallAt(axis, plan);
  const usual = size.width < NARROW ? 0.45 : 0.1;
  const isNear = last && X[axis](last, plan) >= axisEnd({axis, plan, seconds}) / 2;
  const {length, pixel} = pixels(view);
  const isTaken = isNear && Math.abs(shareOf(last, range) - usual) < CLEAR + Math.max(0, labelShift(view, last, pixel)) / length;
  const y = isTaken ? usual + 2 * CLEAR : usual;
  const text = `${plan.budget_word} ε = ${plan.budget_text}`;
  return [strong(text, color("--text-budget"), {x, xanchor: "right", xshift: -8, yref: "paper", y, bgcolor: color("--surface")})];
}

function pointLabel(view, last, color) {
  if (!last) return [];
  const {plan, axis, range} = view;
  const x = X[axis](last, plan);
  const text = `${plan.private ? "private" : "without privacy"}, ${percent(last.test_accuracy)}`;
  const end = axisEnd(view);
  const isSteep = X[axis](view.evaluations[0], plan) > x / 2 && x < 0.7 * end;
  const left = x < end / 2 || isSteep;
  const side = left ? {xanchor: "left", xshift: 12} : {xanchor: "right", xshift: -12};
  const place = {x, y: heightOf(last, range), yshift: labelShift(view, last, pixels(view).pixel), ...side};
  return [strong(text, color(plan.private ? "--text-private" : "--text-twin"), place)];
}

/** A saved picture has no line under its heading, so the axis names its scale. */
function scaleName(color) {
  return words(`test accuracy, %; ${SCALE_WORDS}`, color("--ink-3"), {xref: "paper", x: 0, xanchor: "left", xshift: -36, yref: "paper", y: 1, yanchor: "bottom", yshift: 7});
}

/** Label of the first step, which usually spends the most. */
function firstStep({axis, plan, range, size, first_epsilon: epsilon}, color) {
  const room = size.width >= NARROW && epsilon >= 0.06 * plan.budget;
  if (axis !== "epsilon" || epsilon === null || !room) return [];
  const place = {x: epsilon, xanchor: "right", xshift: -8, y: height(range[0], range), align: "right", yshift: 22, bgcolor: color("--surface")};
  return [words(`step 1<br>ε ${decimalsUp(epsilon, plan.digits)}`, color("--ink-3"), place)];
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
  const text = gain.toFixed(1);
  return `${text} ${text === "1.0" ? "point" : "points"}`;
}

/**
 * Evaluations as numbers and as text.
 * @param {import("../runs/log/run_log.js").RunLog} log @param {import("./plan.js").Plan} plan
 */
export function table(log, plan) {
  const names = ["step", "epsilon", "seconds", "test_accuracy", "test_loss"];
  const values = log.evaluations.map((point) => names.map((name) => point[name]));
  const rows = values.map(([step, epsilon, seconds, accuracy, loss]) => [step, decimalsUp(epsilon, plan.digits), seconds.toFixed(2), percent(accuracy, 2), loss.toFixed(4)]);
  return {caption: "Test accuracy after each evaluation", names, heads: ["Step", "ε spent", "Seconds", "Accuracy", "Test loss"], rows, values};
}
