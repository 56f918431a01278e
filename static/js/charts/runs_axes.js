/** Points of several runs in a chart, and its axes; see `runs_chart.js`. */

import {errorRange, errorTicks, height, logTicks, niceTicks, spaced, tickText} from "./ticks.js";

const MAX_PERCENT = 99.99; // end of an axis of accuracies that fits the values
const WIDE = 20; // percentage points; an axis of accuracies that fits a wider range does not end at a round value
const NARROW = 500; // px; a narrower chart has fewer ticks
const FEW_APART = 0.25; // smallest distance of two ticks of a small chart, as a share of the axis
const USUAL = [0, 95]; // percent, of an axis of accuracies without values

/** @typedef {{range: [number, number], ticks: [number, string][]}} Axis */

/** Lines with their points. @param {import("./runs_chart.js").Run[]} runs @returns {import("./runs_chart.js").Line[]} */
export function linesOf(runs, chart, axis) {
  return runs.map((run) => ({...run, points: pointsOf(run, chart, axis)}));
}

/** Points of a run; points that the axes cannot show are left out. @returns {import("./runs_chart.js").Point[]} */
export function pointsOf(run, chart, axis) {
  const points = run[chart.kind].map((event) => ({x: event[axis.field], y: valueOf(event, chart), step: event.step}));
  return points.filter(({x, y}) => Number.isFinite(x) && y !== null);
}

/** Value of an event in the chart's unit, null if it has none. */
export function valueOf(event, {value: name, factor}) {
  const value = event[name] ?? event.diagnostics?.[name];
  return Number.isFinite(value) ? factor * value : null;
}

/** Name of the horizontal axis for some runs. @param {import("./runs_chart.js").Run[]} runs */
export function nameOf({name, counted, both}, runs) {
  const placed = runs.filter((run) => run.private);
  if (!counted || !placed.some((run) => run.counted)) return name;
  return placed.every((run) => run.counted) ? counted : both;
}

/**
 * Axes of a chart from the points of all runs; points of a live run can extend them.
 * @returns {{x: Axis & {log: boolean}, y: Axis & {to: (value: number) => number}}} `to` gives the position of a value
 */
export function axesOf(lines, chart, axis, width = Infinity) {
  const values = lines.flatMap(({points}) => points.map(({y}) => y));
  return {x: xAxis(lines, chart, axis, width), y: chart.is_error ? errorAxis(lines, values, chart) : plainAxis(values, chart)};
}

function xAxis(lines, {reaches_plan: reachesPlan, is_small: isSmall}, {plan, log_beyond: beyond}, width) {
  const xs = lines.flatMap(({points}) => points.map(({x}) => x));
  const planned = Math.max(0, ...lines.map((line) => line[plan] ?? 0));
  const end = Math.max(0, ...xs, reachesPlan ? planned : 0) || planned;
  if (end === 0) return {range: [0, 1], log: false, ticks: []};
  const ends = lines.map(({points}) => points.at(-1)?.x).filter((x) => x > 0);
  if (beyond && Math.max(...ends) > beyond * Math.min(...ends)) {
    const range = [Math.min(...xs.filter((x) => x > 0)), end];
    return {range, log: true, ticks: worded(logTicks(range))};
  }
  return {range: [0, end], log: false, ticks: worded(isSmall ? [0, end] : niceTicks(end, width < NARROW ? 4 : 6))};
}

function plainAxis(values, {ends}) {
  const range = ends ?? [0, values.length ? 1.05 * Math.max(...values, 1e-6) : 1];
  return {range, ticks: ends || values.length ? worded(spaced(range, 5)) : [], to: (value) => value};
}

function errorAxis(lines, values, {ends, zooms, is_small: isSmall}) {
  const range = (zooms && closeUp(lines)) || (ends ? errorRange(ends, values) : fitted(values));
  const ticks = errorTicks(range, isSmall ? FEW_APART : undefined).filter((tick) => !isSmall || tick > range[0]);
  const to = (value) => height(value, range);
  return {range: range.map(to), ticks: ticks.map((tick) => [to(tick), tickText(tick)]), to};
}

/** Ends of an axis of accuracies just around all values. */
function fitted(values) {
  const [low, high] = values.length ? [Math.max(0, Math.min(...values)), Math.max(...values)] : USUAL;
  const floor = high - low < WIDE ? Math.floor(low) : low;
  return [floor, Math.min(MAX_PERCENT, high + Math.max(0.2, 0.05 * (100 - high)))];
}

/** Ends around the values after the first quarter of the steps, to show small differences; null before all runs have ended. */
function closeUp(lines) {
  const late = lines.flatMap(({points, planned}) => points.filter(({step}) => step >= planned / 4).map(({y}) => y));
  if (late.length === 0 || !lines.every(({is_done: isDone}) => isDone)) return null;
  return [Math.max(1, Math.floor(Math.min(...late)) - 1), Math.min(MAX_PERCENT, Math.ceil(Math.max(...late)))];
}

const worded = (ticks) => ticks.map((tick) => [tick, tickText(tick)]);
