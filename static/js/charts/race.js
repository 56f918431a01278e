/**
 * Epsilon along the steps of one run as every accountant counts it, both axes by ratio.
 *
 * @typedef {object} Racer
 * @property {string} accountant
 * @property {string} label
 * @property {string} status "exact", "bound", "approximation" or "does not apply"
 * @property {string} reason why it does not apply
 * @property {(number | null)[]} epsilon at each step; [] if it does not apply
 *
 * @typedef {object} RaceView
 * @property {number[]} steps
 * @property {Racer[]} curves
 * @property {number} reached how many of the steps have been run
 * @property {number} cursor place in `steps` that is read
 * @property {boolean} valid whether the numbers hold for the run that is described
 * @property {{width: number, height: number}} size
 */

import {integer, significant} from "../lib/format.js";
import {axisName, baseLayout, keyAxis, strong, unitName, valueAxis, wall, words} from "./base.js";

const NARROW = 560; // px
const LINE = 17; // px from label to label at the lines' ends
const MARGIN = {l: 52, t: 28, b: 44};
const LETTER = 9; // px, of a strong word on the chart in the widest of usual fonts
const NUMBER = 76; // px, for the value behind a name, and the leader before it
const NARROW_MARGIN = {l: 46, r: 96, t: 28, b: 44};
const SHORT = 11; // letters of a name on a narrow page

/** Colour by the kind of claim, as on the badge. */
const CLAIMS = {
  exact: {line: "--series-good", text: "--text-good"},
  bound: {line: "--series-private", text: "--text-private"},
  approximation: {line: "--series-budget", text: "--text-budget"},
};
const NO_CLAIM = {line: "--series-twin", text: "--text-twin"};
/** And by its dash which one it is. */
const DASHES = ["solid", "dot", "dash", "longdash", "dashdot", "longdashdot"];

/** The accountants that say something, as they are told apart on the chart. */
export function runners({curves, valid}) {
  const seen = {};
  return curves
    .filter(({epsilon}) => epsilon.some((value) => value !== null))
    .map((racer) => {
      const turn = (seen[racer.status] = (seen[racer.status] ?? -1) + 1);
      const only = racer.status === "approximation" ? 2 : 0;
      const claim = (valid && CLAIMS[racer.status]) || NO_CLAIM;
      return {...racer, ...claim, dash: DASHES[(turn + only) % DASHES.length], width: racer.status === "exact" ? 2.25 : 1.5};
    });
}

/** Whole powers of ten around every value of the race. @returns {[number, number]} */
export function powers(curves) {
  const values = curves.flatMap(({epsilon}) => epsilon).filter((value) => value > 0);
  if (values.length === 0) return [-2, 2];
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
  return [low, Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9))];
}

/** Pure: a view in, Plotly traces and layout out. @param {RaceView} view */
export function figure(view, color) {
  const {steps, size} = view;
  const all = runners(view);
  const narrow = size.width < NARROW;
  const margin = narrow ? NARROW_MARGIN : {...MARGIN, r: roomFor(all)};
  const range = powers(view.curves);
  const end = Math.max(1, Math.log10(steps.at(-1)));
  const place = fanOut(all, view, size.height - margin.t - margin.b, range);
  return {
    traces: all.map((racer) => trace(racer, view, color)),
    layout: {
      ...baseLayout(color, size, margin),
      xaxis: keyAxis(color, [0, end], {type: "log", ...ticks([0, end], narrow ? 2 : 1), hoverformat: ",d", unifiedhovertitle: {text: "step %{x}"}}),
      yaxis: valueAxis(color, range, {type: "log", ...ticks(range, range[1] - range[0] > 6 ? 2 : 1)}),
      shapes: [
        wall(steps[view.cursor], {color: color("--ink-3"), width: 1, dash: "2px,4px"}),
        ...place.map(({from, to}) => leader(from, to, size.width - margin.l - margin.r, color)),
      ],
      annotations: [
        unitName("ε", color),
        axisName("steps, log scale", color),
        ...place.flatMap((at) => endLabels(at, {narrow, color, room: margin.r})),
      ],
    },
  };
}

/** Px that the longest name and its value take. */
function roomFor(all) {
  return Math.ceil(NUMBER + LETTER * Math.max(...all.map(({label}) => label.length), 0));
}

function trace(racer, {steps, reached}, color) {
  return {
    type: "scatter",
    mode: "lines",
    name: racer.label,
    x: steps.slice(0, reached),
    y: racer.epsilon.slice(0, reached),
    text: racer.epsilon.slice(0, reached).map(epsilonText),
    hovertemplate: `%{text} ${racer.label}<extra></extra>`,
    line: {color: color(racer.line), width: racer.width, dash: racer.dash},
  };
}

function ticks([from, to], every) {
  const vals = [];
  for (let power = Math.ceil(from); power <= to; power += every) vals.push(Number(`1e${power}`));
  return {tickvals: vals, ticktext: vals.map((value) => significant(value))};
}

/**
 * Where the names stand at the right: in the order of the ends, never on each other.
 * Heights are shares of the plot, 0 at its foot.
 */
function fanOut(all, {reached}, height, [low, high]) {
  const gap = LINE / height;
  const ends = all
    .map((racer) => ({racer, value: racer.epsilon[reached - 1]}))
    .filter(({value}) => value > 0)
    .map((end) => ({...end, from: (Math.log10(end.value) - low) / (high - low)}))
    .sort((a, b) => a.from - b.from);
  const places = ends.map(({from}) => from);
  for (let i = 1; i < places.length; i += 1) places[i] = Math.max(places[i], places[i - 1] + gap);
  const over = Math.max(0, (places.at(-1) ?? 0) - 1);
  let limit = Infinity;
  for (let i = places.length - 1; over > 0 && i >= 0; i -= 1) {
    places[i] = limit = Math.min(places[i], i === places.length - 1 ? 1 : limit - gap);
  }
  return ends.map((end, i) => ({...end, to: places[i]}));
}

function leader(from, to, width, color) {
  const at = {type: "line", xref: "paper", yref: "paper", layer: "below"};
  return {...at, x0: 1 + 3 / width, x1: 1 + 12 / width, y0: from, y1: to, line: {color: color("--rule-strong"), width: 1}};
}

function endLabels({racer, value, to}, {narrow, color, room}) {
  const at = {xref: "paper", yref: "paper", y: to, yanchor: "middle"};
  const name = narrow && racer.label.length > SHORT ? racer.label.split(" ")[0] : racer.label;
  const label = strong(name, color(racer.text), {...at, x: 1, xanchor: "left", xshift: 12});
  if (narrow) return [label];
  return [label, words(epsilonText(value), color("--ink"), {...at, x: 1, xanchor: "right", xshift: room - 4})];
}

/** An epsilon as a race prints it: three digits that are not below it. */
export function epsilonText(value) {
  if (value === null || value === undefined) return "∞";
  if (value === 0) return "0";
  const unit = 10 ** (Math.floor(Math.log10(value)) - 3);
  const up = Math.ceil(Number((value / unit).toPrecision(9))) * unit;
  return significant(Number(up.toPrecision(4)), 4);
}

/** How far a number is from the exact one, in words. */
export function against(value, truth) {
  if (!(value > 0) || !(truth > 0)) return "";
  const ratio = value / truth;
  if (ratio >= 2) return `${ratio < 100 ? ratio.toPrecision(3) : integer(ratio)} ×`;
  const percent = 100 * (ratio - 1);
  const size = Math.abs(percent);
  if (size < 0.05) return "0 %";
  return `${percent > 0 ? "+" : "−"} ${size < 10 ? size.toFixed(1) : size.toFixed(0)} %`;
}

/** The race at one step: a line for every accountant. @returns {object[]} */
export function ranking({curves, cursor}) {
  const truth = curves.find(({status}) => status === "exact")?.epsilon[cursor];
  return curves.map((racer) => {
    const value = racer.epsilon[cursor];
    const applies = racer.epsilon.length > 0;
    return {
      ...racer,
      text: applies ? epsilonText(value) : "–",
      against: racer.status === "exact" ? "" : against(value, truth),
    };
  });
}

/** What the race shows, as a sentence with its numbers. */
export function conclusion({steps, curves, valid}) {
  const last = ranking({curves, cursor: steps.length - 1});
  if (!valid) return "Batches are shuffled: none of these numbers holds";
  const truth = last.find(({status}) => status === "exact");
  const bounds = last.filter((one) => one.status === "bound" && one.epsilon.at(-1) > 0);
  const worst = bounds.reduce((a, b) => (b.epsilon.at(-1) > (a?.epsilon.at(-1) ?? 0) ? b : a), null);
  if (!truth) return worst ? `${worst.label} gives ${worst.text}` : "No accountant has an answer";
  const low = last.find((one) => one.status === "approximation" && one.epsilon.at(-1) < 0.9 * truth.epsilon.at(-1));
  if (low) return `${low.label} gives ${low.text}, below the truth of ${truth.text}`;
  return worst ? `${worst.label} gives ${worst.text}; the truth is ${truth.text}` : `The truth is ${truth.text}`;
}

/** The whole race as a table: a row a step. */
export function table({steps, curves}, terms) {
  const all = curves.filter(({epsilon}) => epsilon.length > 0);
  return {
    caption: `ε after each step, ${terms}`,
    heads: ["Step", ...all.map(({label}) => label)],
    names: ["step", ...all.map(({accountant}) => accountant)],
    values: steps.map((step, i) => [step, ...all.map(({epsilon}) => epsilon[i])]),
    rows: steps.map((step, i) => [integer(step), ...all.map(({epsilon}) => epsilonText(epsilon[i]))]),
  };
}
