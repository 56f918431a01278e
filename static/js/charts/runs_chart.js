/**
 * Chart of a value of several runs; pure functions from the logs of the runs to marks. The server sends the chart's
 * axes, look and words, and the label and colour of each line: `dpsgd_explorer/web/charts/several_runs.py`. Values
 * are not smoothed.
 *
 * @typedef {Record<string, any>} RunsChart description of a chart, `RunsChart` of the server
 *
 * @typedef {object} Run a line as the server describes it (`RunLine`), with the log of its run
 * @property {string} key
 * @property {string} label
 * @property {string} colour
 * @property {boolean} dashed
 * @property {string} together text that lines have in common if they differ in the seed only, or ""
 * @property {string} dataset
 * @property {boolean} private
 * @property {boolean} counted if true, ε is counted by a filter and not the spent budget
 * @property {number} planned steps
 * @property {number | null} budget ε after these steps; null without a budget
 * @property {boolean} [is_done] if true, the run took all its steps
 * @property {object[]} evaluations data of its events
 * @property {object[]} steps
 *
 * @typedef {Run & {points: Point[]}} Line
 * @typedef {{x: number, y: number, step: number}} Point in data units
 * @typedef {import("../lib/svg.js").Mark} Mark
 */

import {discBox, labelMarks} from "./label_marks.js";
import {alongLine} from "./labels.js";
import {axesOf, linesOf, nameOf, valueOf} from "./runs_axes.js";
import {decimals} from "../lib/format.js";
import {area, clipped, disc, fanned, line, rule, text} from "../lib/svg.js";

const LETTER = 7.4; // px, mean width of a letter of a name
const LONGEST = 0.4; // share of the chart's width; longer names are inside the chart
const END = 4.5; // px, largest radius of the disc at the end of a line
const GAP = 15; // px between two names

/**
 * Sets the scales of a drawing. `edges` are its left, top, right and bottom in px.
 * @param {{runs: Run[], chart: RunsChart, axis: Record<string, any>, lit?: string | null, cursor?: number | null}} view
 *   `lit`: key of the highlighted line, or text that the highlighted lines have `together`; `cursor`: in units of the axis
 * @param {import("../lib/svg.js").Chart} svg
 */
export function frame({runs, chart, axis, lit = null, cursor = null}, svg) {
  const lines = linesOf(runs, chart, axis);
  const axes = axesOf(lines, chart, axis, svg.width);
  const beside = 14 + LETTER * Math.max(0, ...lines.map(({label}) => label.length + chart.suffix.length + chart.digits + 4));
  const isBeside = chart.names === "all" && beside <= LONGEST * svg.width;
  const edges = chart.is_small ? [30, 8, svg.width - 12, svg.height - 22] : [40, 26, svg.width - (isBeside ? beside : 16), svg.height - 44];
  const {x, y} = svg.frame(axes.x.range, axes.y.range, edges, {logX: axes.x.log});
  const place = (point) => [x(point.x), y(axes.y.to(point.y))];
  const at = cursor === null ? null : Math.min(Math.max(cursor, axes.x.range[0]), axes.x.range[1]);
  return {lines, chart, axis, lit, cursor: at, axes, edges, isBeside, x, y, place};
}

/** Marks of a frame. @param {ReturnType<typeof frame>} frame @returns {Mark[]} */
export function marks(frame) {
  const {lines, chart, axis, axes, edges, x, y} = frame;
  const shown = lines.filter(({points}) => points.length > 0);
  const ordered = [...shown.filter((one) => !isLit(one, frame)), ...shown.filter((one) => isLit(one, frame))];
  const name = `${nameOf(axis, lines)}${axes.x.log ? ", log scale" : ""}`;
  const {inside, above} = shown.length ? LOOKS[chart.look](ordered, frame) : {inside: [], above: []};
  return [
    ...axisMarks(axes, edges, {x, y, unit: chart.is_small ? "" : chart.unit, name: chart.is_small ? "" : name}),
    ...clipped([edges[0] - 6, edges[1] - 6, edges[2] + 8, edges[3]], inside),
    ...above,
    ...cursorMarks(ordered, frame),
  ];
}

/** Grid, ticks and names of two axes. @returns {Mark[]} */
export function axisMarks(axes, [left, top, right, bottom], {x, y, unit, name}) {
  const last = axes.x.ticks.length - 1;
  const anchor = (i) => (!name && i === last && i > 0 ? "end" : "middle");
  return [
    ...axes.y.ticks.flatMap(([at, words]) => [rule([left, y(at)], [right, y(at)]), text([left - 8, y(at) + 4.5], words, "", "end")]),
    ...(unit ? [text([left - 8, top - 12], unit, "", unit.length < 4 ? "end" : "middle")] : []),
    rule([left, bottom], [right, bottom], "axis"),
    ...axes.x.ticks.flatMap(([at, words], i) => [rule([x(at), bottom], [x(at), bottom + 5], "axis"), text([x(at), bottom + 19], words, "", anchor(i))]),
    ...(name ? [text([right, bottom + 37], name, "", "end")] : []),
  ];
}

/** Lines by the look of the chart: marks inside the edges, and marks that may reach beyond. */
const LOOKS = {
  highlight: (lines, view) => ({
    inside: [
      ...groupsOf(lines).flatMap((group) => bandMarks(group, view, group.some((one) => isLit(one, view)) ? "f-band lit" : "f-band")),
      ...lines.map((one) => line(one.points.map(view.place), isLit(one, view) ? styleOf(one) : styleOf(one, "faint", view.chart.is_small ? " thin soft" : " thin"))),
    ],
    above: [
      ...lines.filter((one) => isLit(one, view) || !view.chart.is_small).map((one) => disc(endOf(one, view), isLit(one, view) ? 4.5 : 2.5, isLit(one, view) ? `f-${one.colour}` : "f-faint")),
      ...nameMarks(lines, view),
    ],
  }),
  colours: (lines, view) => ({
    inside: lines.map((one) => line(one.points.map(view.place), styleOf(one))),
    above: [...lines.map((one) => disc(endOf(one, view), 4.5, `f-${one.colour}`)), ...nameMarks(lines, view)],
  }),
  mean: (lines, view) => ({
    inside: [
      ...bandMarks(lines, view, `f-${lines[0].colour} faint`),
      ...lines.map((one) => line(one.points.map(view.place), `s-${one.colour} thin soft`)),
      line(band(lines).map(({x, mean}) => view.place({x, y: mean})), `s-${lines[0].colour}`),
    ],
    above: [],
  }),
};

const isLit = ({key, together}, {lit}) => key === lit || (together !== "" && together === lit);
const styleOf = ({colour, dashed}, other = "", thin = "") => `s-${other || colour}${thin}${dashed ? " dashed" : ""}`;

/** Last point of a line, moved to the edges of the chart if it is below or above. */
function endOf({points}, {place, edges: [, top, , bottom]}) {
  const [x, y] = place(points.at(-1));
  return [x, Math.min(Math.max(y, top), bottom)];
}

function bandMarks(group, {place}, css) {
  const points = band(group);
  const [up, down] = [points.map(({x, high}) => place({x, y: high})), points.map(({x, low}) => place({x, y: low})).reverse()];
  return points.length > 1 ? [area([...up, ...down], css)] : [];
}

function cursorMarks(lines, {cursor, lit, x, place, edges: [, top, , bottom]}) {
  if (cursor === null) return [];
  const dots = lines.flatMap(({key, colour, points}) => {
    const point = pointAt(points, cursor);
    return point ? [disc(place(point), key === lit ? 4.5 : 3, key === lit ? `f-${colour}` : "f-faint")] : [];
  });
  return [rule([x(cursor), top - 4], [x(cursor), bottom], "cursor"), ...dots];
}

/** Names and last values: to the right of all lines without overlaps, or among the lines where a label has room. */
function nameMarks(lines, view) {
  const {chart, edges: [, top, right, bottom]} = view;
  const named = chart.names === "all" ? lines : chart.names === "lit" ? lines.filter((one) => isLit(one, view)) : [];
  const words = ({label, points}) => `${label} ${decimals(points.at(-1).y, chart.digits)}${chart.suffix}`;
  const css = (one) => (chart.look === "colours" || isLit(one, view) ? one.colour : "");
  if (view.isBeside) {
    const ends = fanned(named.map((one) => endOf(one, view)[1] + 4.5), GAP, top);
    const over = Math.max(0, Math.max(...ends) - bottom - 6);
    return named.map((one, i) => text([right + 10, ends[i] - over], words(one), css(one)));
  }
  const high = (one) => endOf(one, view)[1];
  const drawn = new Map(lines.map((one) => [one, one.points.map(view.place)]));
  const labels = [...named].sort((a, b) => high(a) - high(b)).map((one) => ({text: words(one), anchors: alongLine(drawn.get(one)), css: css(one), mayCross: true}));
  const ends = lines.map((one) => discBox(endOf(one, view), END));
  let low = bottom + 12;
  return labelMarks(labels, view.edges, {lines: [...drawn.values()], boxes: ends}, (label) => [text([right - 4, (low -= GAP + 1)], label.text, `${label.css} halo`, "end")]);
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
 * Least, mean and largest value at each step that at least two runs have reached.
 * @param {Line[]} lines @returns {{x: number, low: number, mean: number, high: number}[]}
 */
export function band(lines) {
  const bySteps = new Map();
  for (const {points} of lines) for (const point of points) bySteps.set(point.step, [...(bySteps.get(point.step) ?? []), point]);
  const shared = [...bySteps.values()].filter((points) => points.length > 1).sort(([a], [b]) => a.step - b.step);
  return shared.map((points) => {
    const ys = points.map(({y}) => y);
    return {x: points[0].x, low: Math.min(...ys), mean: ys.reduce((sum, y) => sum + y, 0) / ys.length, high: Math.max(...ys)};
  });
}

/** Groups of lines that differ only in the seed. @param {Line[]} lines @returns {Line[][]} */
export function groupsOf(lines) {
  const names = [...new Set(lines.map(({together}) => together).filter(Boolean))];
  return names.map((name) => lines.filter(({together}) => together === name)).filter((group) => group.length > 1);
}

/** Key of the line with the value at `x` that is nearest to a height, null without lines. @param {Line[]} lines */
export function nearest(lines, x, height, heightOf) {
  let best = null;
  for (const {key, points} of lines) {
    const point = pointAt(points, x) ?? points[0];
    if (!point) continue;
    const distance = Math.abs(heightOf(point.y) - height);
    if (best === null || distance < best.distance) best = {key, distance};
  }
  return best?.key ?? null;
}

/** Heading for the newest values, in the server's words. @param {Line[]} lines @param {RunsChart} chart */
export function conclusion(lines, {words, digits}) {
  const ends = lines.flatMap(({label, dataset, points}) => (points.length ? [{label, dataset, y: points.at(-1).y}] : []));
  if (ends.length === 0) return lines.length === 0 && words.none ? words.none : lines.some(({steps}) => steps.length > 0) ? words.empty : words.waiting;
  const sets = new Set(ends.map(({dataset}) => dataset)).size;
  if (sets > 1) return filled(words.data_sets, {count: sets});
  const [most, least] = [ends.reduce((a, b) => (b.y > a.y ? b : a)), ends.reduce((a, b) => (b.y < a.y ? b : a))];
  const [high, low] = [decimals(most.y, digits), decimals(least.y, digits)];
  const texts = {count: ends.length, most: most.label, least: least.label, high, low, gap: decimals(most.y - least.y, digits)};
  return filled(ends.length === 1 ? words.one : high === low ? words.equal : words.several, texts);
}

/** Note on the runs that the horizontal axis cannot show, "" if there are none. @param {Line[]} lines @param {RunsChart} chart */
export function absent(lines, {kind, words}) {
  const names = lines.filter((one) => one.points.length === 0 && one[kind].length > 0).map(({label}) => label);
  return names.length && words.absent ? filled(words.absent, {labels: names.join(", "), count: names.length}) : "";
}

/** A sentence of the server with texts in place of the names in braces. @param {Record<string, string | number>} texts */
export function filled(sentence, texts) {
  return sentence.replace(/\{(\w+)\}/g, (_, name) => String(texts[name]));
}

/** Numbers of a chart, one row per point. @param {Run[]} runs @param {RunsChart} chart */
export function rows(runs, chart) {
  return runs.flatMap((run) => run[chart.kind].map((event) => [run.label, event.step, event.epsilon, event.seconds, valueOf(event, chart)])).filter((row) => row.at(-1) !== null);
}
