/**
 * Chart of values by step, from a description that the server sends with the page; see `web/charts/run_charts.py`.
 *
 * @typedef {object} Series one line
 * @property {"step" | "evaluation"} kind of the events that contain its values
 * @property {string} field
 * @property {string} name label of the line
 * @property {string} hover
 * @property {string} head of its table column
 * @property {boolean} is_main if true, the line is thick and sets the end of the axis
 *
 * @typedef {object} Described
 * @property {string} title before the first value
 * @property {string} unit
 * @property {string} caption of the table
 * @property {number} settled number of last values that set the end of the vertical axis
 * @property {number} enough number of values before they set it
 * @property {Series[]} series
 *
 * @typedef {object} SeriesView
 * @property {Described} described
 * @property {import("../runs/log/run_log.js").RunLog} log
 * @property {import("./plan.js").Plan} plan
 * @property {number} top end of the vertical axis
 * @property {{width: number, height: number}} size
 * @property {boolean} [print] if true, draws the unit, which the page has in the line under the heading
 */

import {decimals, plural, significant} from "../lib/format.js";
import {axisName, baseLayout, keyAxis, thin, unitName, valueAxis} from "./base.js";
import {alongLine, annotated, wideWidth} from "./labels.js";
import {niceTicks} from "./ticks.js";

const MARGIN = {l: 44, r: 16, t: 10, b: 44};
const ABOVE = 28; // px, top margin with the unit
const PLACED = 250; // points of a line that labels are kept away from

/** Events that contain the values of a line. */
const eventsOf = ({kind}, log) => (kind === "step" ? log.steps : log.evaluations);

/** End of the vertical axis: `near`, or `far` if the main line stays above `near`, or rises above it and its start. */
export function topOf({series, settled, enough}, [near, far], log) {
  const main = series.find((line) => line.is_main);
  const values = eventsOf(main, log).map((event) => event[main.field]).filter((value) => value !== null);
  const stays = values.length >= enough && values.slice(-settled).every((value) => value > near);
  return stays || values.some((value) => value > Math.max(near, values[0])) ? far : near;
}

/** Words for the part of the lines that is above the axis, "" without one. @param {Described} described */
export function cutWords({series}, log, top) {
  const isCut = series.some((line) => eventsOf(line, log).some((event) => event[line.field] > top));
  return isCut ? `; values above ${significant(top)} are cut off` : "";
}

/** Pure: Plotly traces and layout of a view. @param {SeriesView} view */
export function figure(view, color) {
  const {described, plan, size, top, print = false} = view;
  const traces = described.series.map((line) => trace(line, view, color));
  const named = labels(view, traces, color);
  return {
    traces,
    layout: {
      ...baseLayout(color, size, {...MARGIN, t: print ? ABOVE : MARGIN.t}),
      xaxis: keyAxis(color, [0, lastStep(plan) * 1.02], {tickvals: niceTicks(lastStep(plan), 4), hoverformat: "d", unifiedhovertitle: {text: "step %{x}"}}),
      yaxis: valueAxis(color, [0, top], {tickvals: niceTicks(top, 3)}),
      shapes: named.shapes,
      annotations: [...(print ? [unitName(`${described.unit}${cutWords(described, view.log, top)}`, color)] : []), axisName("step", color), ...named.annotations],
    },
  };
}

/** Last step of the run: a budget can end it before the planned number of steps. */
function lastStep({steps, last_step: last}) {
  return last || steps;
}

function trace(series, {log, plan}, color) {
  const {field, hover, is_main: isMain} = series;
  const events = eventsOf(series, log).filter((event) => (event[field] ?? null) !== null);
  const points = thin(events, (point) => point[field], 800);
  const style = isMain ? {width: 2.25, dash: plan.private ? "solid" : "dash"} : {width: 1.25};
  return {
    type: "scatter",
    mode: "lines",
    name: hover,
    x: points.map((point) => point.step),
    y: points.map((point) => point[field]),
    opacity: isMain ? 1 : 0.55,
    hovertemplate: `${hover} %{y:.3f}<extra></extra>`,
    line: {color: color(plan.private ? "--series-private" : "--series-twin"), ...style},
  };
}

/** Label of each line, the main one first, next to its last values. */
function labels({described, plan, top, size, print}, traces, color) {
  const [width, high] = [size.width - MARGIN.l - MARGIN.r, size.height - (print ? ABOVE : MARGIN.t) - MARGIN.b];
  const at = (x, y) => [(width * x) / (lastStep(plan) * 1.02), high * (1 - Math.min(y, top) / top)];
  const lines = traces.map(({x, y}) => x.map((value, i) => at(value, y[i])));
  const named = described.series.map((series, i) => ({
    text: series.name, anchors: lines[i].length ? alongLine(lines[i]) : [],
    ...(series.is_main ? {weight: 600, color: color(plan.private ? "--text-private" : "--text-twin")} : {color: color("--ink-3")}),
  }));
  const placed = [...named].sort((one, other) => (other.weight ?? 0) - (one.weight ?? 0));
  return annotated(placed, {width, height: high, lines: lines.map((line) => thin(line, ([, y]) => y, PLACED)), widthOf: print ? wideWidth : undefined}, color("--ink-3"));
}

/**
 * Heading with the newest values, or a conclusion about a finished run.
 * @param {string} name of the chart @param {Described} described
 */
export function conclusion(name, {title, series}, log) {
  const ends = series.map((line) => ({...line, value: mean(eventsOf(line, log).slice(line.kind === "step" ? -10 : -1), line.field)}));
  if (log.moves || ends.some(({value}) => value === null)) return title;
  const now = ends.map(({head, value}, i) => `${i === 0 ? head : lower(head)} ${significant(value, 2)}`).join(", ");
  return (log.state === "done" && AT_THE_END[name]?.(log, ends.map(({value}) => value))) || `${now} after ${plural(log.latest.step, "step")}`;
}

/** Conclusions by chart, only for runs that completed all steps. */
const AT_THE_END = {
  loss: ({steps, evaluations}, [train, test]) => {
    if (evaluations.length >= 4 && test > 1.05 * evaluations[0].test_loss) return "Test loss grows: the steps are too large";
    if (test - train > 0.15 * train) return `Test loss stays ${significant(test - train, 2)} above training loss`;
    const [first] = evaluations;
    const rose = evaluations.some(({test_loss: loss}) => loss > 1.05 * first.test_loss);
    return !rose && test < first.test_loss && train < steps[0].loss && "Training and test loss fall together";
  },
};

const lower = (text) => text[0].toLowerCase() + text.slice(1);

function mean(events, field) {
  const values = events.map((event) => event[field] ?? null).filter((value) => value !== null);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Values of all lines by step; the printed rows have no missing values. @param {Described} described */
export function table({caption, series}, log) {
  const evaluated = new Map(log.evaluations.map((event) => [event.step, event]));
  const steps = series.some(({kind}) => kind === "step") ? log.steps : log.evaluations;
  const values = steps.map((event) => [event.step, ...series.map(({kind, field}) => (kind === "step" ? event : evaluated.get(event.step))?.[field] ?? null)]);
  const evaluations = series.flatMap(({kind}, i) => (kind === "evaluation" ? [i + 1] : []));
  const rows = values.filter((row) => evaluations.every((i) => row[i] !== null)).map(([step, ...rest]) => [step, ...rest.map((value) => value === null ? null : decimals(value, 4))]);
  return {caption, names: ["step", ...series.map(({field}) => field)], heads: ["Step", ...series.map(({head}) => head)], rows, values};
}
