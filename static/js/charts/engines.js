/**
 * What each engine's step costs, as bars over the ordinary step's.
 *
 * @typedef {object} Found an evaluation of the log
 * @property {string} engine the first is "ordinary"
 * @property {number | null} ratio of CPU time; null: it refuses
 * @property {number | null} ratio_low lower quartile
 * @property {number | null} ratio_high upper quartile
 * @property {number | null} milliseconds
 * @property {number | null} peak_bytes
 * @property {number | null} difference null: nothing to compare with
 * @property {string} refused "" if it does not
 *
 * @typedef {object} EnginesView
 * @property {Found[]} found
 * @property {string[]} contenders all that are to be measured, in order
 * @property {{width: number, height: number}} size
 */

import {significant} from "../lib/format.js";
import {axisName, baseLayout, keyAxis, niceTicks, strong, words} from "./base.js";

const MARGIN = {l: 88, r: 16, t: 8, b: 44};
const ROOM = 1.3; // for the words behind the longest bar
const MIB = 2 ** 20;
const ORDINARY = "ordinary";

/** What the two charts read, over the ordinary step's. */
export const MEASURES = {
  time: {
    value: (one) => one.ratio,
    range: (one) => [one.ratio_low, one.ratio_high],
    names: ["engine", "milliseconds", "ratio", "ratio_low", "ratio_high"],
    heads: ["Engine", "Milliseconds", "× ordinary", "quarter below", "quarter above"],
    caption: "CPU time of a step, one thread",
    few: "fastest",
    many: "slowest",
    write: (one) => [number(one.milliseconds), number(one.ratio), number(one.ratio_low), number(one.ratio_high)],
    values: (one) => [one.milliseconds, one.ratio, one.ratio_low, one.ratio_high],
  },
  memory: {
    value: (one, {peak_bytes: ordinary}) => (one.peak_bytes === null ? null : one.peak_bytes / ordinary),
    range: () => null,
    names: ["engine", "peak_bytes", "ratio"],
    heads: ["Engine", "MiB", "× ordinary"],
    caption: "Peak memory that torch allocates in a step",
    few: "least",
    many: "most",
    write: (one, ordinary) => [number(one.peak_bytes === null ? null : one.peak_bytes / MIB), number(MEASURES.memory.value(one, ordinary))],
    values: (one, ordinary) => [one.peak_bytes, MEASURES.memory.value(one, ordinary)],
  },
};

function number(value) {
  return value === null ? null : significant(value, 3);
}

/** Pure: a view in, Plotly traces and layout out. @param {keyof typeof MEASURES} name @param {EnginesView} view */
export function figure(name, {found, contenders, size}, color) {
  const {value, range} = MEASURES[name];
  const shown = found.filter((one) => one.refused === "");
  const values = shown.map((one) => value(one, found[0]));
  const top = ROOM * Math.max(2, ...values, ...shown.map((one) => range(one)?.[1] ?? 0));
  return {
    traces: [bars(shown, values, color)],
    layout: {
      ...baseLayout(color, size, MARGIN),
      bargap: 0.45,
      hovermode: "closest",
      xaxis: keyAxis(color, [0, top], {tickvals: niceTicks(top, 5)}),
      yaxis: {type: "category", range: [contenders.length - 0.5, -0.5], categoryarray: contenders, categoryorder: "array", tickvals: contenders, fixedrange: true, ticklabelstandoff: 6, tickfont: {color: color("--ink")}},
      shapes: [unity(color), ...shown.flatMap((one) => whisker(one, range(one), color))],
      annotations: [axisName("× the ordinary step", color), ...told(found, values, shown, range, color)],
    },
  };
}

function bars(shown, values, color) {
  return {
    type: "bar",
    orientation: "h",
    y: shown.map(({engine}) => engine),
    x: values,
    hovertemplate: "%{y}: %{x:.2f} × the ordinary step<extra></extra>",
    marker: {color: shown.map(({engine}) => color(engine === ORDINARY ? "--ink-3" : "--series-private"))},
  };
}

/** The ordinary step, through all bars. */
function unity(color) {
  return {type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: {color: color("--chart-axis"), width: 1, dash: "dot"}};
}

function whisker({engine}, range, color) {
  if (range === null || range[0] === range[1]) return [];
  return [{type: "line", x0: range[0], x1: range[1], y0: engine, y1: engine, line: {color: color("--ink"), width: 1.5}}];
}

/** The value behind each bar; "rejected" where there is none. */
function told(found, values, shown, range, color) {
  const behind = {xanchor: "left", xshift: 6};
  const written = shown.map((one, i) => {
    const x = Math.max(values[i], range(one)?.[1] ?? 0);
    return strong(values[i].toFixed(2), color("--ink"), {...behind, x, y: one.engine});
  });
  const refused = found.filter((one) => one.refused !== "");
  return [...written, ...refused.map(({engine}) => words("rejected", color("--text-budget"), {...behind, x: 0, y: engine}))];
}

/** The heading of a chart. */
export function conclusion(name, found, fallback) {
  const {value, few, many} = MEASURES[name];
  const engines = found.filter((one) => one.engine !== ORDINARY && one.refused === "");
  if (engines.length < 2) return fallback;
  const sorted = engines.map((one) => [value(one, found[0]), one.engine]).sort(([a], [b]) => a - b);
  const say = ([ratio, engine], word) => `${word}: ${engine}, ${ratio.toFixed(2)} ×`;
  return `${fallback}: ${say(sorted[0], few)}; ${say(sorted.at(-1), many)}`;
}

/** The rows beside a chart. @returns {import("./chart.js").Table} */
export function table(name, found) {
  const {names, heads, caption, write, values} = MEASURES[name];
  return {
    caption,
    words: [0],
    names,
    heads,
    rows: found.map((one) => [one.engine, ...write(one, found[0])]),
    values: found.map((one) => [one.engine, ...values(one, found[0])]),
  };
}

/** How far the engines are apart, in words; "" before there are two. */
export function agreement(found) {
  const apart = found.filter(({difference}) => difference !== null);
  if (apart.length === 0) return "";
  const largest = Math.max(...apart.map(({difference}) => difference));
  const count = apart.length + 1;
  return `${count} engines, one gradient: no entry differs by more than ${difference(largest)} of the largest`;
}

/** @param {number | null} value */
export function difference(value) {
  if (value === null || value === undefined) return "–";
  return value === 0 ? "0" : value.toExponential(1);
}

/** How many layers chose which way. */
export function waysTaken(layers) {
  if (layers.length === 0) return "";
  const ghosts = layers.filter(({way}) => way === "ghost").length;
  return `${ghosts} of ${layers.length} layers computed norms without the gradient`;
}
