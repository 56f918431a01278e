/**
 * Chart of several runs; pure functions from points to marks. The selected run is coloured, the others are grey with
 * their letters. Runs with equal settings and different seeds get a band from minimum to maximum. Values are not
 * smoothed.
 *
 * @typedef {object} Line one run
 * @property {string} letter
 * @property {string} seeds letters of the runs with equal settings except for the seed; "" if there are no such runs
 * @property {boolean} private if false, the line is dashed
 * @property {boolean} counted if true, ε is counted by a filter and not the spent budget
 * @property {number} planned steps
 * @property {number | null} budget ε after these steps; null without a budget
 * @property {Point[]} points
 *
 * @typedef {{x: number, y: number, step: number}} Point in data units: y in percent or nats
 */

import {AXES, CHARTS, nameOf} from "./overlay_axes.js";
import {area, disc, fanned, line, rule, text} from "../lib/svg.js";

export const MARGIN = {left: 40, top: 26, right: 64, bottom: 44};

/** Points of a run in a chart; points that the axes cannot show are left out. @returns {Point[]} */
export function pointsOf(run, chart, axis) {
  const {from, y} = CHARTS[chart];
  return run[from].map((point) => ({x: AXES[axis].of(point), y: y(point), step: point.step})).filter(({x, y: value}) => isNumber(x) && isNumber(value));
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** Last point at or before `x`; values are not interpolated. @param {Point[]} points */
export function pointAt(points, x) {
  let latest = null;
  for (const point of points) {
    if (point.x > x * (1 + 1e-9)) break;
    latest = point;
  }
  return latest;
}

/**
 * Minimum and maximum over runs that differ only in their seeds, at the steps that all runs have.
 * @param {Line[]} lines of one group @returns {{x: number, low: number, high: number}[]}
 */
export function band(lines) {
  const [first, ...others] = lines;
  return first.points.flatMap(({x, y, step}) => {
    const ys = others.map(({points}) => points.find((point) => point.step === step)?.y);
    return ys.every(isNumber) ? [{x, low: Math.min(y, ...ys), high: Math.max(y, ...ys)}] : [];
  });
}

/** Groups of lines that differ only in the seed. @param {Line[]} lines @returns {Line[][]} */
export function seedGroups(lines) {
  const names = [...new Set(lines.map(({seeds}) => seeds).filter(Boolean))];
  return names.map((name) => lines.filter(({seeds, points}) => seeds === name && points.length > 0)).filter((group) => group.length > 1);
}

/**
 * Run with the value at the cursor that is nearest to a height.
 * @param {Line[]} lines @param {(y: number) => number} heightOf
 */
export function nearest(lines, x, height, heightOf) {
  let best = null;
  for (const {letter, points} of lines) {
    const point = pointAt(points, x) ?? points[0];
    if (!point) continue;
    const distance = Math.abs(heightOf(point.y) - height);
    if (best === null || distance < best.distance) best = {letter, distance};
  }
  return best?.letter ?? null;
}

/**
 * Pure: the marks of one chart.
 * @param {{lines: Line[], chart: string, axis: string, lit: string, cursor: number | null}} view `lit`: letter of the
 *   selected run
 * @param {{x: (v: number) => number, y: (v: number) => number, axes: object, width: number, height: number}} frame
 *   scales in pixels
 */
export function marks({lines, chart, axis, lit, cursor}, {x, y, axes, width, height}) {
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const place = ({x: u, y: v}) => [x(u), y(axes.y.to(v))];
  const shown = lines.filter(({points}) => points.length > 0);
  const ordered = [...shown.filter(({letter}) => letter !== lit), ...shown.filter(({letter}) => letter === lit)];
  return [
    ...axes.y.ticks.flatMap(([at, words]) => [rule([MARGIN.left, y(at)], [right, y(at)]), text([MARGIN.left - 8, y(at) + 4.5], words, "", "end")]),
    text([MARGIN.left - 8, MARGIN.top - 12], CHARTS[chart].unit, "", CHARTS[chart].unit.length < 4 ? "end" : "middle"),
    rule([MARGIN.left, bottom], [right, bottom], "axis"),
    ...axes.x.ticks.map(([at, words]) => text([x(at), bottom + 19], words, "", "middle")),
    text([right, bottom + 37], `${nameOf(lines, axis)}${axes.x.log ? ", log scale" : ""}`, "", "end"),
    ...seedGroups(shown).flatMap((group) => bandMarks(group, lit, place)),
    ...ordered.flatMap((line) => lineMarks(line, line.letter === lit, place)),
    ...cursorMarks(ordered, cursor, lit, {x, place, bottom}),
    ...endMarks(shown, lit, chart, {right, bottom, place}),
  ];
}

function bandMarks(group, lit, place) {
  const points = band(group);
  const up = points.map(({x, high}) => place({x, y: high}));
  const down = points.map(({x, low}) => place({x, y: low})).reverse();
  const isLit = group.some(({letter}) => letter === lit);
  return points.length > 1 ? [area([...up, ...down], isLit ? "f-band lit" : "f-band")] : [];
}

function lineMarks({points, private: isPrivate}, isLit, place) {
  const css = `${isLit ? "s-private" : "s-ghost thin"}${isPrivate ? "" : " dashed"}`;
  return [line(points.map(place), css), disc(place(points.at(-1)), isLit ? 4.5 : 2.5, isLit ? "f-private" : "f-ghost")];
}

function cursorMarks(lines, cursor, lit, {x, place, bottom}) {
  if (cursor === null) return [];
  const dots = lines.flatMap(({letter, points}) => {
    const point = pointAt(points, cursor);
    return point ? [disc(place(point), letter === lit ? 4.5 : 3, letter === lit ? "f-private" : "f-ghost")] : [];
  });
  return [rule([x(cursor), MARGIN.top - 4], [x(cursor), bottom], "cursor"), ...dots];
}

/** Letters and last values at the right, without overlaps. */
function endMarks(lines, lit, chart, {right, bottom, place}) {
  const {digits} = CHARTS[chart];
  const ends = lines.map(({points}) => place(points.at(-1))[1] + 4.5);
  const lowest = fanned(ends, 15, MARGIN.top);
  const over = Math.max(0, Math.max(...lowest) - bottom - 6);
  return lines.map(({letter, points}, i) => {
    const words = `${letter} ${points.at(-1).y.toFixed(digits)}`;
    return text([right + 10, lowest[i] - over], words, letter === lit ? "private" : "");
  });
}

/** Heading for the chart's content. @param {Line[]} lines */
export function conclusion(lines, chart) {
  const ends = lines.filter(({points}) => points.length > 0).map(({letter, points}) => ({letter, y: points.at(-1).y}));
  if (ends.length === 0) return lines.some(({steps}) => steps.length > 0) ? EMPTY[chart] : WAITING[chart];
  const sets = new Set(lines.map(({dataset}) => dataset)).size;
  if (sets > 1) return `${sets} data sets: ${PLURALS[chart]} are not comparable`;
  const [best, ...others] = [...ends].sort((a, b) => (chart === "accuracy" ? b.y - a.y : a.y - b.y));
  const last = others.at(-1);
  return SAID[chart](best, last);
}

const EMPTY = {
  accuracy: "Accuracy will appear here",
  loss: "Test loss will appear here",
  clipped: "No per-record gradient was computed",
};
const PLURALS = {accuracy: "accuracies", loss: "losses", clipped: "shares of clipped gradients"};
const WAITING = {...EMPTY, clipped: "The share of clipped gradients will appear here"};
const SAID = {
  accuracy: (best, last) => `${best.letter} is at ${best.y.toFixed(1)} %${last ? `, ${pointsApart(best.y - last.y)} above ${last.letter}` : ""}`,
  loss: (best, last) => (last && last.y.toFixed(3) === best.y.toFixed(3) ? `All are at a test loss of ${best.y.toFixed(3)}` : `${best.letter} has the least test loss, ${best.y.toFixed(3)}${last ? `; ${last.letter} the most, ${last.y.toFixed(3)}` : ""}`),
  clipped: (best, last) => (last && Math.round(last.y) > Math.round(best.y) ? `${last.letter} clips ${last.y.toFixed(0)} % of gradients, ${best.letter} ${best.y.toFixed(0)} %` : `${best.y.toFixed(0)} % of gradients are clipped at the end`),
};

function pointsApart(points) {
  const words = points.toFixed(1);
  return `${words} ${words === "1.0" ? "point" : "points"}`;
}

/** Numbers of a chart, one row per point. @param {Line[]} lines @param {{from: string}[]} runs */
export function rows(runs, chart) {
  const {from, y} = CHARTS[chart];
  return runs.flatMap((run) => run[from].filter((point) => isNumber(y(point))).map((point) => [run.letter, point.step, point.epsilon, point.seconds, y(point)]));
}
