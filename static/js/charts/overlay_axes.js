/**
 * Values of the charts of several runs, and their axes: from the points of all runs, or from the plans before the
 * first point.
 */

import {niceTicks} from "./base.js";

const FAR_APART = 5; // ratio of the largest to the smallest final ε above which the ε axis is logarithmic
const ERROR_TICKS = [0, 50, 80, 90, 95, 98, 99, 99.9]; // percent right
const CLOSE = 20; // percentage points; a smaller range of accuracies gets round ticks
const MOST_RIGHT = 99.99; // percent
const POWERS = [1, 2, 5];

/** Values of each chart. */
export const CHARTS = {
  accuracy: {from: "evaluations", y: (point) => 100 * point.test_accuracy, unit: "%", opens: true, digits: 1},
  loss: {from: "evaluations", y: (point) => point.test_loss, unit: "nats", opens: false, digits: 3},
  clipped: {from: "steps", y: (point) => share(point.diagnostics?.clipped_fraction), unit: "%", opens: false, digits: 0},
};
/**
 * Functions from an evaluation to its x on each axis. For ε, the budget counts as spent, whatever the filter has
 * counted.
 */
export const AXES = {
  epsilon: {name: "ε spent", counted: "ε counted by the filter", both: "ε spent, or counted by a filter", of: (point) => point.epsilon},
  step: {name: "step", of: (point) => point.step},
  seconds: {name: "seconds", of: (point) => point.seconds},
};

/**
 * Name of the horizontal axis for some runs.
 * @param {{counted: boolean, private: boolean}[]} runs @param {string} axis
 */
export function nameOf(runs, axis) {
  const {name, counted = name, both = name} = AXES[axis];
  const placed = runs.filter((run) => run.private);
  if (!placed.some((run) => run.counted)) return name;
  return placed.every((run) => run.counted) ? counted : both;
}

function share(value) {
  return value === null || value === undefined ? null : 100 * value;
}

/** Height of a percentage on the logarithmic error axis. */
export function opened(percent) {
  return -Math.log10(1 - Math.min(percent, MOST_RIGHT) / 100);
}

/**
 * Axes of a chart from the points of all runs; points of a live run can extend them.
 * @param {import("./overlay.js").Line[]} lines @param {string} chart @param {string} axis
 */
export function axesOf(lines, chart, axis) {
  const {opens} = CHARTS[chart];
  const xs = lines.flatMap(({points}) => points.map(({x}) => x));
  const ys = lines.flatMap(({points}) => points.map(({y}) => y));
  const x = xAxis(xs, lines, axis);
  if (ys.length === 0) return {x, y: EMPTY_AXES[chart]};
  return {x, y: opens ? openedAxis(ys) : {range: [0, top(ys, chart)], ticks: plain(top(ys, chart)), to: (y) => y}};
}

function xAxis(xs, lines, axis) {
  const end = Math.max(...xs, 0) || plannedEnd(lines, axis);
  if (end === null) return {range: [0, 1], log: false, ticks: []};
  const ends = lines.map(({points}) => points.at(-1)?.x).filter((x) => x > 0);
  const isLog = axis === "epsilon" && Math.max(...ends) > FAR_APART * Math.min(...ends);
  if (!isLog) return {range: [0, end], log: false, ticks: niceTicks(end, 6).map((tick) => [tick, String(tick)])};
  const start = Math.min(...xs.filter((x) => x > 0));
  return {range: [start, end], log: true, ticks: logTicks(start, end)};
}

/** Planned end of the longest run, for an axis without points; null without a plan. */
function plannedEnd(lines, axis) {
  const ends = lines.map((line) => ({step: line.planned, epsilon: line.budget})[axis]).filter((end) => end > 0);
  return ends.length ? Math.max(...ends) : null;
}

function logTicks(start, end) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(start)); power <= Math.log10(end); power += 1) {
    for (const factor of POWERS) ticks.push(Number(`${factor}e${power}`));
  }
  const inside = ticks.filter((tick) => tick >= start && tick <= end);
  const shown = inside.length > 8 ? inside.filter((tick) => /^[0.]*1/.test(String(tick))) : inside;
  return shown.map((tick) => [tick, String(tick)]);
}

function top(ys, chart) {
  return chart === "clipped" ? 100 : Math.max(...ys, 1e-6) * 1.05;
}

function plain(end) {
  return niceTicks(end, 5).map((tick) => [tick, String(tick)]);
}

function openedAxis(ys) {
  const low = ys.length ? Math.max(0, Math.min(...ys)) : 0;
  const high = ys.length ? Math.max(...ys) : 95;
  const floor = high - low < CLOSE ? Math.max(0, Math.floor(low)) : low;
  const ceiling = Math.min(MOST_RIGHT, high + Math.max(0.2, 0.05 * (100 - high)));
  const ticks = high - low < CLOSE ? closeTicks(floor, ceiling) : ERROR_TICKS.filter((tick) => tick >= floor && tick <= ceiling);
  return {range: [opened(floor), opened(ceiling)], ticks: ticks.map((tick) => [opened(tick), String(tick)]), to: opened};
}

function closeTicks(floor, ceiling) {
  const step = niceTicks(ceiling - floor, 5)[1] ?? 1;
  const ticks = [];
  for (let tick = Math.ceil(floor / step) * step; tick <= ceiling; tick += step) ticks.push(Number(tick.toPrecision(6)));
  return ticks;
}

/** Axes before the first point: usual accuracies, all shares from 0 to 1, and losses without ticks. */
const EMPTY_AXES = {
  accuracy: openedAxis([]),
  loss: {range: [0, 1], ticks: [], to: (y) => y},
  clipped: {range: [0, 100], ticks: plain(100), to: (y) => y},
};
