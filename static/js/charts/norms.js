/**
 * Histogram of per-sample gradient norms with the clipping bound C. Not private.
 *
 * @typedef {object} NormsView
 * @property {number[]} edges  bin edges, L2 norm; one more than counts
 * @property {number[]} counts samples in each bin; the end bins include all values beyond them
 * @property {number | null} clipped_fraction  share of samples above C, 0 to 1
 * @property {number | null} max_grad_norm C; null without clipping
 * @property {string} clipping_fn
 * @property {number} top end of the count axis
 * @property {{width: number, height: number}} size
 */

import {integer, percent, significant} from "../lib/format.js";
import {axisName, baseLayout, keyAxis, strong, valueAxis, wall, words} from "./base.js";
import {annotated} from "./labels.js";
import {niceCeiling, niceTicks} from "./ticks.js";

const MARGIN = {l: 44, r: 16, t: 34, b: 44};
const NARROW = 420; // px; a narrower chart has shorter texts
const SMALL = 300; // px; a narrower chart shows one share instead of two
const DECADES = [1, 3];
const TICK_HEIGHT = 20; // px of a label of the count axis and the gap above it
const TICK_WIDTH = 56; // px of a label such as 0.0001 and the gap after it

/**
 * End of the count axis, rounded. The previous end stays unless the peak of the inner bins is higher, or fills less
 * than a fifth of the axis.
 */
export function countTop(counts, before, expected_batch_size) {
  const peak = Math.max(0, ...counts.slice(1, -1)); // end bins may be cut off, with a label of their count
  const top = before || niceCeiling(expected_batch_size / 8);
  if (peak > top) return niceCeiling(peak);
  return peak > 0 && peak < top / 5 ? niceCeiling(1.5 * peak) : top;
}

/** Bin edges of the empty chart before a run sends its bins: C is in the middle. */
export function previewEdges(bound) {
  return Array.from({length: 41}, (_, i) => bound * 10 ** ((i - 20) / 10));
}

/**
 * Bars on an axis of log10(norm); the bin that contains C is split at C.
 * @returns {{kept: Bar[], shortened: Bar[]}}
 */
export function bars(edges, counts, bound) {
  if (edges.length !== counts.length + 1) {
    throw new RangeError(`expected ${counts.length + 1} edges, got ${edges.length}.`);
  }
  const kept = [];
  const shortened = [];
  counts.forEach((count, i) => {
    const [from, to] = [edges[i], edges[i + 1]];
    if (from < bound) kept.push(bar(from, Math.min(to, bound), count));
    if (to > bound) shortened.push(bar(Math.max(from, bound), to, count));
  });
  return {kept, shortened};
}

/** @typedef {{x: number, width: number, count: number, from: number, to: number}} Bar */

function bar(from, to, count) {
  const [a, b] = [Math.log10(from), Math.log10(to)];
  return {x: (a + b) / 2, width: b - a, count, from, to};
}

/** Values of 1 and 3 times each power of ten between two norms; empty if the range is not positive and finite. */
export function normTicks(low, high) {
  if (!(low > 0 && high < Infinity)) return [];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of DECADES) ticks.push(Number((factor * 10 ** power).toPrecision(1)));
  }
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/** Pure: Plotly traces and layout of a view. @param {NormsView} view */
export function figure(view, color) {
  const {edges, counts, max_grad_norm: bound, size, top} = view;
  const parts = bars(edges, counts, bound ?? Infinity);
  const all = normTicks(edges[0], edges.at(-1));
  const cut = cutBins(view, parts, color);
  const rows = Math.floor((size.height - MARGIN.t - MARGIN.b) / TICK_HEIGHT);
  const ticks = size.width < NARROW ? spaced(all.filter((tick) => Math.log10(tick) % 1 === 0), size.width) : all;
  return {
    traces: [
      trace(parts.kept, {color: color("--series-private")}),
      trace(parts.shortened, {color: color("--chart-fill"), line: {color: color("--series-private"), width: 1}}),
    ],
    layout: {
      ...baseLayout(color, size, MARGIN),
      bargap: 0.1,
      barmode: "overlay",
      hovermode: "closest",
      xaxis: keyAxis(color, [Math.log10(edges[0]), Math.log10(edges.at(-1))], {
        tickvals: ticks.map(Math.log10),
        ticktext: ticks.map((tick) => significant(tick)),
      }),
      yaxis: valueAxis(color, [0, top], {tickvals: niceTicks(top, Math.min(4, Math.max(1, rows))), tickformat: ",d"}),
      shapes: [...(bound === null ? [] : [wall(Math.log10(bound), {color: color("--ink"), width: 2.25})]), ...cut.shapes],
      annotations: [...labels(view, color), ...cut.annotations],
    },
  };
}

/** Evenly chosen ticks with enough room for their labels. */
function spaced(ticks, width) {
  const every = Math.ceil((ticks.length * TICK_WIDTH) / (width - MARGIN.l - MARGIN.r));
  return ticks.filter((_, i) => i % every === 0);
}

function trace(all, marker) {
  const parts = all.filter(({count}) => count > 0);
  return {
    type: "bar",
    x: parts.map((part) => part.x),
    y: parts.map((part) => part.count),
    width: parts.map((part) => part.width * 0.86),
    text: parts.map((part) => `${significant(part.from, 2)} to ${significant(part.to, 2)}`),
    textposition: "none",
    hovertemplate: "norm %{text}: %{y} samples<extra></extra>",
    marker,
  };
}

function labels({max_grad_norm: bound, clipped_fraction: share, clipping_fn, ...view}, color) {
  const {edges} = view;
  const always = [axisName("gradient norm (L2), log scale", color)];
  if (bound === null) return always;
  const x = Math.log10(bound);
  const top = {yref: "paper", y: 1, yanchor: "bottom"};
  const inner = edges[0] * edges.at(-1) > bound ** 2 ? {xanchor: "left", xshift: 6} : {xanchor: "right", xshift: -6};
  const name = strong(`C = ${significant(bound)}`, color("--ink"), {x, ...inner, ...top, yshift: 13});
  if (share === null || clipping_fn !== "Abadi") return [...always, name];
  const ends = {...top, xref: "paper", yshift: -2};
  const whole = words(`${percent(1 - share, 0)} not clipped`, color("--ink-2"), {...ends, x: 0, xanchor: "left"});
  return [
    ...always,
    name,
    ...(view.size.width < SMALL ? [] : [whole]),
    strong(`${percent(share, 0)} clipped`, color("--text-private"), {...ends, x: 1, xanchor: "right"}),
  ];
}

/** Counts next to end bins that are higher than the axis and therefore cut off. */
function cutBins({edges, counts, top, size, max_grad_norm: bound}, {kept, shortened}, color) {
  const [width, high] = [size.width - MARGIN.l - MARGIN.r, size.height - MARGIN.t - MARGIN.b];
  const [from, to] = [edges[0], edges.at(-1)].map(Math.log10);
  const across = (norm) => (width * (norm - from)) / (to - from);
  const lie = size.width < NARROW ? "" : "here or ";
  const last = counts.length - 1;
  const ends = [[0, edges[1], [1, 0], "below"], [last, edges[last], [-1, 0], "above"]].filter(([i]) => counts[i] > top);
  const placed = ends.map(([i, edge, way, word]) => {
    const x = across(Math.log10(edge));
    return {text: `${integer(counts[i])} ${lie}${word}`, anchors: [0.1, 0.3, 0.5].map((down) => [x, down * high]), ways: [way], color: color("--ink-2")};
  });
  const boxes = [...kept, ...shortened].map((bar) => {
    const [h, w] = [high * Math.min(1, bar.count / top), across(from + bar.width)];
    return {x: across(bar.x) - w / 2, y: high - h, w, h};
  });
  const lines = bound === null ? [] : [[[across(Math.log10(bound)), 0], [across(Math.log10(bound)), high]]];
  return annotated(placed, {width, height: high, lines, boxes: boxes.filter(({h}) => h > 0)}, color("--ink-3"));
}

/** Heading with the newest share of clipped gradients. */
export function conclusion(log, plan) {
  const step = log.steps.findLast((point) => point.clipped_fraction !== null);
  if (!plan.private) return "Without privacy, no per-record gradient is computed";
  if (!step || (log.moves && plan.clipping_fn === "Abadi")) return "Norms of the gradients";
  if (plan.clipping_fn !== "Abadi") return "Every gradient is scaled to the norm C";
  const share = step.clipped_fraction;
  if (share === 0) return "No gradient is longer than C";
  return `${percent(share, 0)} of gradients are longer than C`;
}

/** Bins of the newest histogram. @param {import("../runs/log/run_log.js").RunLog} log */
export function table(log) {
  const counts = log.steps.findLast((step) => step.norm_counts)?.norm_counts ?? [];
  const edges = log.phase?.norm_edges ?? [];
  const values = counts.map((count, i) => [edges[i], edges[i + 1], count]);
  const rows = values.map(([from, to, count]) => [significant(from), significant(to), count]);
  return {caption: "Per-sample gradient norms of the newest step, not private", names: ["from", "to", "samples"], heads: ["Norm from", "to", "Samples"], rows, values};
}
