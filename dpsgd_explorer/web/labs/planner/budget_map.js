/**
 * Lines of equal epsilon over epochs and noise, and where the budget stands on them.
 *
 * @typedef {object} Contour
 * @property {number} epsilon
 * @property {number[]} epochs
 * @property {number[]} noise_multiplier
 *
 * @typedef {object} MapView as /api/v1/privacy/budget_map sends it, and the point
 * @property {[number, number]} epochs ends of the map
 * @property {[number, number]} noise_multiplier
 * @property {Contour} budget the line to walk along
 * @property {Contour[]} contours
 * @property {{epochs: number, noise_multiplier: number, epsilon_text: string} | null} point
 * @property {{width: number, height: number}} size
 */

import {roundUp, significant} from "../../../../static/js/lib/format.js";
import {axisName, baseLayout, keyAxis, strong, unitName, valueAxis, words} from "../../../../static/js/charts/base.js";

export const MARGIN = {l: 44, r: 64, t: 28, b: 44};
const EPOCHS = [1, 3, 10, 30, 100];
const NOISE = [0.5, 1, 2, 4, 8];
const NEAR = 0.12; // of the line's epsilon, by ratio: two labels would meet

/** Pure: a view in, Plotly traces and layout out. @param {MapView} view */
export function figure(view, color) {
  const {size, budget, contours, point} = view;
  const apart = contours.filter(({epsilon}) => Math.abs(Math.log10(epsilon / budget.epsilon)) > NEAR);
  const lines = [...apart.map((line) => [line, "--series-private", 1.25]), [budget, "--series-budget", 2.25]];
  return {
    traces: [...lines.map(([line, token, width]) => trace(line, color(token), width)), ...marker(point, color)],
    layout: {
      ...baseLayout(color, size, MARGIN),
      hovermode: "closest",
      xaxis: keyAxis(color, logs(view.epochs), {type: "log", tickvals: EPOCHS, ticktext: EPOCHS.map(String)}),
      yaxis: valueAxis(color, logs(view.noise_multiplier), {type: "log", tickvals: NOISE, ticktext: NOISE.map(String)}),
      shapes: [],
      annotations: [
        unitName("σ", color),
        axisName("epochs, log scale", color),
        ...apart.flatMap((line) => endLabel(line, view, (text, at) => words(text, color("--text-private"), at))),
        ...endLabel(budget, view, (text, at) => strong(text, color("--text-budget"), {...at, bgcolor: color("--surface")})),
      ],
    },
  };
}

function trace({epsilon, epochs, noise_multiplier}, color, width) {
  return {
    type: "scatter",
    mode: "lines",
    x: epochs,
    y: noise_multiplier,
    hovertemplate: `ε = ${significant(epsilon)}<extra></extra>`,
    line: {color, width},
  };
}

/** The ink disc: it can be dragged. */
function marker(point, color) {
  if (!point) return [];
  return [
    {
      type: "scatter",
      mode: "markers",
      x: [point.epochs],
      y: [point.noise_multiplier],
      hoverinfo: "skip",
      marker: {color: color("--ink"), size: 16, line: {color: color("--surface"), width: 3}},
    },
  ];
}

/** Where a line leaves the map, at the right or at the top. */
function endLabel({epsilon, epochs, noise_multiplier: noise}, view, write) {
  const inside = noise.map((value, i) => ({x: epochs[i], y: value})).filter(({y}) => y > view.noise_multiplier[0] && y < view.noise_multiplier[1]);
  if (inside.length < 2) return [];
  const {x, y} = inside.at(-1);
  const text = `ε = ${significant(epsilon)}`;
  if (x > 0.999 * view.epochs[1]) return [write(text, {xref: "paper", x: 1, xanchor: "left", xshift: 6, y: Math.log10(y)})];
  return [write(text, {x: Math.log10(x), xanchor: "left", xshift: 6, yref: "paper", y: 1, yanchor: "bottom"})];
}

function logs([low, high]) {
  return [Math.log10(low), Math.log10(high)];
}

/** What lies under a pixel of the plot, kept on the map. @param {MapView} view */
export function under({epochs, noise_multiplier, size}, x, y) {
  const across = (x - MARGIN.l) / (size.width - MARGIN.l - MARGIN.r);
  const up = 1 - (y - MARGIN.t) / (size.height - MARGIN.t - MARGIN.b);
  return {epochs: between(epochs, across), noise_multiplier: between(noise_multiplier, up)};
}

function between([low, high], share) {
  const kept = Math.min(1, Math.max(0, share));
  return Number((low * (high / low) ** kept).toPrecision(3));
}

/** What the map says, as a sentence with its numbers. */
export function conclusion({point, budget}) {
  if (!point) return "Where the same ε is spent";
  const noise = roundUp(point.noise_multiplier, 3);
  return `${significant(point.epochs)} epochs at σ = ${noise} spend ε = ${point.epsilon_text}${Number(point.epsilon_text) <= budget.epsilon ? "" : `, more than ${significant(budget.epsilon)}`}`;
}

/** The noise of each line at each of the map's epochs. */
export function table({budget, contours}) {
  const lines = [...contours.filter(({epsilon}) => epsilon !== budget.epsilon), budget].sort((a, b) => a.epsilon - b.epsilon);
  const epochs = [...new Set(lines.flatMap((line) => line.epochs))].sort((a, b) => a - b);
  const values = epochs.map((x) => [x, ...lines.map((line) => line.noise_multiplier[line.epochs.indexOf(x)] ?? null)]);
  return {
    caption: "Noise multiplier σ at which this number of epochs spends ε, read from the map",
    heads: ["Epochs", ...lines.map(({epsilon}) => `ε = ${significant(epsilon)}`)],
    names: ["epochs", ...lines.map(({epsilon}) => `noise_multiplier_at_epsilon_${epsilon}`)],
    values,
    rows: values.map(([x, ...noise]) => [significant(x), ...noise.map((value) => value && significant(value))]),
  };
}
