/** Charts of a group of runs; pure functions from views to marks of ../lib/svg.js. */

import {accuracyRange, height, heightOf, ticks as apartTicks} from "../charts/accuracy_axis.js";
import {niceStep, niceTicks} from "../charts/base.js";
import {integer, percent, roundUp, significant} from "../lib/format.js";
import {area, box, clipped, disc, fanned, line, rule, text} from "../lib/svg.js";
import {endOf} from "./group_log.js";

/** @typedef {import("../lib/svg.js").Mark} Mark */
/** @typedef {import("./group_log.js").Member & {log: import("../runs/log/run_log.js").RunLog}} Followed */

const WIDE = 20; // percentage points; a wider axis is logarithmic in the error
const APART = {few: 0.25, many: 0.08}; // smallest distance of two ticks, as a share of the axis
const TWIN_COLOURS = ["private", "good", "twin"];
const ROOM = 26; // px above a plot, for the unit

/** Ticks of an accuracy axis in percent. @param {[number, number]} range */
export function accuracyTicks(range, few = false) {
  if (range[1] - range[0] > WIDE) return apartTicks(range, few ? APART.few : APART.many).filter((tick) => !few || tick > range[0]);
  const step = Math.max(1, niceStep(range[1] - range[0], 5));
  const ticks = [];
  for (let tick = Math.ceil(range[0] / step) * step; tick <= range[1]; tick += step) ticks.push(tick);
  return ticks;
}

/**
 * Accuracy axis with the points of all runs of a group.
 * @param {Followed[]} members @returns {[number, number]}
 */
export function commonRange(members, catalogue) {
  return accuracyRange(catalogue, members.flatMap(({log}) => log.evaluations));
}

/** Narrow accuracy axis for seeds that have all ended, to show their differences. */
export function closeUp(members, range) {
  const late = members.flatMap(({log, steps}) => log.evaluations.filter(({step}) => step >= steps / 4).map((point) => 100 * point.test_accuracy));
  if (late.length === 0 || members.some((member) => endOf(member) === null)) return range;
  return [Math.max(1, Math.floor(Math.min(...late)) - 1), Math.min(100, Math.ceil(Math.max(...late)))];
}

/** Set the scales of a plot of accuracy by step, and return its axes. */
function frame(chart, {range, steps, few = false, right = 12, left = 30}) {
  const [top, bottom] = [few ? 8 : ROOM, chart.height - (few ? 22 : 44)];
  const [low, high] = range.map((end) => height(end, range));
  const edges = [left, top, chart.width - right, bottom];
  const {x, y} = chart.frame([0, steps], [low, high], edges);
  const marks = few ? [] : [text([0, 12], "%")];
  for (const tick of accuracyTicks(range, few)) {
    const tickY = y(height(tick, range));
    marks.push(rule([left, tickY], [edges[2], tickY]), text([left - 6, tickY + 4.5], tick, "", "end"));
  }
  marks.push(rule([left, bottom], [edges[2], bottom], "axis"));
  const shown = few ? [0, steps] : niceTicks(steps, chart.width < 500 ? 3 : 6);
  for (const tick of shown) {
    marks.push(rule([x(tick), bottom], [x(tick), bottom + 5], "axis"), text([x(tick), bottom + 19], integer(tick), "", few && tick > 0 ? "end" : "middle"));
  }
  if (!few) marks.push(text([edges[2], bottom + 37], "steps", "", "end"));
  const place = (point) => [x(point.step), y(heightOf(point, range))];
  return {marks, place, edges, x, y};
}

const inside = ([left, top, right, bottom], marks) => clipped([left - 6, top - 6, right + 8, bottom], marks);

/**
 * Chart of one run of a sweep, with the other runs in grey.
 * @param {import("../lib/svg.js").Chart} chart @param {Followed} member @param {Followed[]} all @returns {Mark[]}
 */
export function multiple(chart, member, all, {range, steps}) {
  const {marks, place, edges} = frame(chart, {range, steps, few: true});
  const ghosts = all.filter((other) => other !== member).map(({log}) => line(log.evaluations.map(place), "s-faint thin soft"));
  const curve = member.log.evaluations.map(place);
  const colour = member.private ? "private" : "twin";
  const lines = [...ghosts, line(curve, `s-${colour}${member.private ? "" : " dashed"}`)];
  if (curve.length) lines.push(disc(curve.at(-1), 4, `f-${colour}`));
  return [...marks, ...inside(edges, lines)];
}

/**
 * Positions of a sweep's values on its axis: logarithmic if the values span a large ratio, by index if they are not
 * numbers.
 */
export function valueAxis(members) {
  const numbers = members.map(({number}) => number);
  if (numbers.some((number) => number === null)) return {places: members.map((_, i) => i + 1), log: false, range: [0.5, members.length + 0.5]};
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const log = low > 0 && high / low >= 5;
  const room = log ? (high / low) ** 0.06 : 0.06 * (high - low);
  return {places: numbers, log, range: log ? [low / room, high * room] : [low - room, high + room]};
}

/** Chart of a result against the value of each run; `read` returns a height, or null. */
function against(chart, members, {range, ticks, read, words, symbol, unit}) {
  const {places, log, range: ends} = valueAxis(members);
  const [left, top, right, bottom] = [44, ROOM, chart.width - 12, chart.height - 44];
  const {x, y} = chart.frame(ends, range, [left, top, right, bottom], {logX: log});
  const marks = [text([0, 12], unit)];
  for (const [at, label] of ticks) marks.push(rule([left, y(at)], [right, y(at)]), text([left - 6, y(at) + 4.5], label, "", "end"));
  marks.push(rule([left, bottom], [right, bottom], "axis"), text([right, bottom + 37], symbol, "", "end"));
  let free = -Infinity;
  const order = places.map((_, i) => i).sort((i, j) => places[i] - places[j]);
  for (const i of order) {
    const at = x(places[i]);
    marks.push(rule([at, bottom], [at, bottom + 5], "axis"));
    const label = members[i].value;
    const half = 3.6 * label.length;
    if (at - half < free) continue;
    marks.push(text([at, bottom + 19], label, "", "middle"));
    free = at + half + 6;
  }
  const reached = order.filter((i) => read(members[i]) !== null).map((i) => ({i, point: [x(places[i]), y(read(members[i]))]}));
  marks.push(line(reached.map(({point}) => point), "s-private"), ...reached.map(({point, i}) => disc(point, 4.5, members[i].private ? "f-private" : "f-twin")));
  const last = reached.at(-1);
  if (last) marks.push(text([last.point[0], last.point[1] - 10], words(members[last.i]), "private halo", "end"));
  return marks;
}

/** Final accuracy against the value. @returns {Mark[]} */
export function endAccuracies(chart, members, {range, symbol}) {
  return against(chart, members, {
    range: range.map((end) => height(end, range)),
    ticks: accuracyTicks(range).map((tick) => [height(tick, range), tick]),
    read: (member) => (endOf(member) === null ? null : Math.max(height(range[0], range), heightOf({test_accuracy: endOf(member)}, range))),
    words: (member) => percent(endOf(member)),
    symbol,
    unit: "%",
  });
}

/** Final ε against the value; runs without a guarantee have no point. @returns {Mark[]} */
export function endEpsilons(chart, members, {symbol}) {
  const spent = members.map(epsilonOf).filter((epsilon) => epsilon !== null);
  const top = 1.08 * Math.max(...spent, 0.01);
  return against(chart, members, {
    range: [0, top],
    ticks: niceTicks(top, 5).map((tick) => [tick, significant(tick)]),
    read: epsilonOf,
    words: (member) => roundUp(epsilonOf(member)),
    symbol,
    unit: "ε",
  });
}

/** Final ε of a run, null without a guarantee or before its end. */
export function epsilonOf({log}) {
  return log.end?.epsilon ?? null;
}

/** Mean, minimum and maximum at each step that at least two runs have reached. */
export function band(members) {
  const bySteps = new Map();
  for (const {log} of members) {
    for (const {step, test_accuracy: value} of log.evaluations) bySteps.set(step, [...(bySteps.get(step) ?? []), value]);
  }
  return [...bySteps]
    .filter(([, values]) => values.length > 1)
    .sort(([a], [b]) => a - b)
    .map(([step, values]) => ({step, low: Math.min(...values), high: Math.max(...values), mean: values.reduce((sum, value) => sum + value, 0) / values.length}));
}

/** Curves of all seeds with their band. @returns {Mark[]} */
export function seeds(chart, members, {range: wide, steps}) {
  const range = closeUp(members, wide);
  const {marks, place, edges} = frame(chart, {range, steps, right: 16});
  const points = band(members);
  const at = (name) => points.map((point) => place({step: point.step, test_accuracy: point[name]}));
  const colour = members[0].private ? "private" : "twin";
  return [
    ...marks,
    ...inside(edges, [
      area([...at("low"), ...at("high").reverse()], `f-${colour} faint`),
      ...members.map(({log}) => line(log.evaluations.map(place), `s-${colour} thin soft`)),
      line(at("mean"), `s-${colour}`),
    ]),
  ];
}

/** Curves of three kinds of training; members are private, clipped only, ordinary. @returns {Mark[]} */
export function twins(chart, members, {range, steps}) {
  const narrow = chart.width < 560;
  const {marks, place, edges} = frame(chart, {range, steps, right: narrow ? 12 : 234});
  const lines = members.map(({log}, i) => line(log.evaluations.map(place), `s-${TWIN_COLOURS[i]}${i === 2 ? " dashed" : ""}`));
  const ends = members.map(({log}) => (log.evaluations.length ? place(log.evaluations.at(-1)) : null));
  const reached = ends.map((end, i) => ({end, i})).filter(({end}) => end !== null);
  const heights = narrow ? reached.map((_, i) => edges[3] - 58 + 18 * i) : fanned(reached.map(({end}) => Math.min(end[1], edges[3])), 18);
  const labels = reached.map(({end, i}, n) => {
    const words = `${members[i].value.split(",")[0]}${i === 0 ? "" : ", not private"} ${percent(members[i].log.accuracy)}`;
    return narrow ? text([edges[2] - 4, heights[n]], words, `${TWIN_COLOURS[i]} halo`, "end") : text([Math.min(end[0] + 10, edges[2] + 10), heights[n] + 4.5], words, TWIN_COLOURS[i]);
  });
  return [...marks, ...inside(edges, lines), ...reached.map(({end, i}) => disc([end[0], Math.min(end[1], edges[3])], 4.5, `f-${TWIN_COLOURS[i]}`)), ...labels];
}

/**
 * Bars of the accuracy lost to clipping and to noise.
 * @param {{clipping: number, noise: number} | null} split in shares @returns {Mark[]}
 */
export function splitBars(chart, split) {
  const rows = [["clipping", "good"], ["noise", "private"]];
  const values = split ? rows.map(([name]) => 100 * split[name]) : [0, 0];
  const [low, high] = [Math.min(0, ...values), Math.max(0.1, ...values)];
  const [left, right] = [76, chart.width - 64];
  const {x} = chart.frame([low, high], [0, 1], [left, 0, right, chart.height - 40]);
  const row = (chart.height - 44) / rows.length;
  const marks = [rule([x(0), 4], [x(0), chart.height - 40], "axis"), text([right, chart.height - 6], "percentage points", "", "end")];
  const step = niceStep(high - low, 5);
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i += 1) {
    marks.push(text([x(i * step), chart.height - 22], significant(i * step).replace("-", "−"), "", "middle"));
  }
  rows.forEach(([name, colour], i) => {
    const y = 8 + i * row;
    marks.push(text([left - 10 + Math.min(0, x(low) - left), y + row / 2], name, "ink", "end"));
    if (!split) return;
    const ends = [x(0), x(values[i])].sort((a, b) => a - b);
    marks.push(box([ends[0], y], ends[1] - ends[0], row - 12, `f-${colour}`), text([Math.max(...ends) + 8, y + row / 2], values[i].toFixed(1).replace("-", "−"), "ink"));
  });
  return marks;
}
