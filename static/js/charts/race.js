/**
 * ε by step for every accountant, with logarithmic axes; for the lab and the widget. `web/figures/accountant_race.py`
 * draws the finished race for pages without scripts, and sends names, dashes and colours.
 *
 * @typedef {object} Racer
 * @property {string} accountant
 * @property {string} label
 * @property {string} status "exact", "bound", "approximation" or "does not apply"
 * @property {string} reason for "does not apply"
 * @property {(number | null)[]} epsilon at each step; [] if the accountant does not apply
 *
 * @typedef {Racer & {name: string, colour: string, dash: string}} Runner a racer with values, its short name and its
 *   style
 *
 * @typedef {object} RaceView
 * @property {number[]} steps
 * @property {Runner[]} runners
 * @property {number} reached index of the last drawn step
 * @property {number | null} [cursor] index of the step at the cursor
 * @property {boolean} [isPointed] if true, the pointer is on the chart, which lists the values at the cursor
 * @property {boolean} [hasValues] if true, a wide chart shows full names with values
 * @property {number | null} [guess] ε that the visitor guessed
 * @property {number | null} [top] end of the axis of ε of a close-up with linear axes; null for logarithmic axes
 */

import {decimals, integer, significant} from "../lib/format.js";
import {box, clamp, diamond, disc, fanned, line, rule, text} from "../lib/svg.js";

const NARROW = 560; // px; a narrower chart has short names without values
const [LEFT, TOP, BOTTOM] = [58, 26, 44]; // px, margins with the labels of the axes
const SHORT_NAMES = 96; // px, width of the short names at the right
const [VALUE, LETTER] = [76, 9]; // px, width of a value and of a letter of a full name
const LABEL_GAP = 17; // px between two labels
const NOTICEABLE = 1e-4; // smallest relative difference at which an ε counts as below the exact value

/** @returns {number} height in px for a chart's width */
export const heightOf = (width) => (width < NARROW ? 380 : 440);

/** Accountants with values, and their styles. @returns {Runner[]} */
export function runners(curves, looks, valid = true) {
  return curves
    .filter(({epsilon}) => epsilon.some((value) => value !== null))
    .map((racer) => ({
      ...racer,
      name: looks.names[racer.accountant],
      dash: looks.dashes[racer.accountant] ?? "",
      colour: valid ? looks.colours[racer.status] : looks.silent,
    }));
}

/** Range of powers of ten around all values. @returns {[number, number]} */
export function decades(racers) {
  const values = racers.flatMap(({epsilon}) => epsilon).filter((value) => value > 0);
  if (values.length === 0) return [-2, 2];
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
  return [low, Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9))];
}

/** Marks of the chart. @param {import("../lib/svg.js").Chart} chart @param {RaceView} view */
export function marks(chart, view) {
  const {steps, runners: racers, reached, cursor = null, isPointed = false, guess = null, top = null} = view;
  const isNarrow = chart.width < NARROW;
  const hasValues = Boolean(view.hasValues) && !isNarrow;
  const room = hasValues ? VALUE + LETTER * Math.max(0, ...racers.map(({label}) => label.length)) : SHORT_NAMES;
  const [right, bottom] = [chart.width - room, chart.height - BOTTOM];
  const [low, high] = top ? [0, top] : decades(racers);
  const last = Math.max(10, steps.at(-1));
  const {x} = chart.frame([top ? 0 : 1, last], [low, high], [LEFT, TOP, right, bottom], {logX: !top});
  const y = (epsilon) => chart.y(top ? epsilon : Math.log10(epsilon));
  const all = [text([0, TOP - 12], top ? `ε, from 0 to ${top}` : "ε, log scale")];
  for (const tick of powers(low, high, top ?? 6)) {
    all.push(rule([LEFT, chart.y(tick)], [right, chart.y(tick)]), text([LEFT - 8, chart.y(tick) + 4.5], top ? tick : powerText(tick), "", "end"));
  }
  all.push(rule([LEFT, bottom], [right, bottom], "axis"));
  const decade = Math.floor(Math.log10(last) + 1e-9);
  const stepTicks = top ? evenTicks(last, 10 ** decade / 2) : powers(0, decade, isNarrow ? 3 : 8).map((power) => [10 ** power, powerText(power)]);
  for (const [tick, words] of stepTicks) {
    all.push(rule([x(tick), bottom], [x(tick), bottom + 5], "axis"), text([x(tick), bottom + 19], words, "", "middle"));
  }
  all.push(text([right, bottom + 37], top ? "steps" : "steps, log scale", "", "end"));
  if (cursor !== null) all.push(rule([x(steps[cursor]), TOP], [x(steps[cursor]), bottom], "axis dashed"));
  const inOrder = [...racers].sort((a, b) => (a.status === "exact") - (b.status === "exact"));
  for (const {status, epsilon, colour, dash} of inOrder) {
    const points = epsilon.slice(0, reached + 1).flatMap((value, i) => (value > 0 ? [[x(steps[i]), y(value)]] : []));
    all.push(line(points, `s-${colour}${status === "exact" ? "" : " thin"} ${dash}`.trimEnd()));
  }
  const ends = racers.map((racer) => ({...racer, value: racer.epsilon[reached]})).filter(({value}) => value > 0);
  const heights = ends.map(({value}) => y(value));
  const places = fanned(heights, LABEL_GAP, TOP, bottom);
  const tip = x(steps[reached]);
  for (const [i, {label, name, colour, value}] of ends.entries()) {
    all.push(disc([tip, heights[i]], 3, `f-${colour}`), text([tip + 12, places[i] + 4.5], hasValues ? label : name, `${colour} halo`));
    if (hasValues) all.push(text([chart.width - 4, places[i] + 4.5], epsilonText(value), "ink", "end"));
  }
  if (guess !== null && !(top && guess > top)) all.push(diamond([right, y(guess)], 7, "guess-mark"), text([right - 13, y(guess) - 10], `you: ${guess}`, "ink halo", "end"));
  return isPointed ? [...all, ...readout(chart, racers, steps, cursor, y)] : all;
}

/** Box at the cursor with the value of every accountant. */
function readout(chart, racers, steps, cursor, y) {
  const said = racers.map((racer) => ({...racer, value: racer.epsilon[cursor]})).sort((a, b) => (b.value ?? Infinity) - (a.value ?? Infinity));
  const names = said.map(({label, name}) => (chart.width < NARROW ? name : label));
  const [row, tall] = [18, 32 + 18 * said.length];
  const wide = Math.ceil(VALUE + 20 + LETTER * Math.max(0, ...names.map(({length}) => length)));
  const cursorX = chart.x(steps[cursor]);
  const [before, after] = [cursorX - wide - 14, cursorX + 14];
  const left = clamp(before >= 0 ? before : after, 0, chart.width - wide);
  const top = TOP + 6;
  const rows = said.flatMap(({colour, value}, i) => [
    ...(value > 0 ? [disc([cursorX, y(value)], 4, `f-${colour}`)] : []),
    text([left + 74, top + 40 + row * i], epsilonText(value), "ink", "end"),
    text([left + 84, top + 40 + row * i], names[i], colour),
  ]);
  return [box([left, top], wide, tall, "readout"), text([left + 12, top + 20], `step ${integer(steps[cursor])}`, "ink"), ...rows];
}

/** Index of the step nearest to a position of the chart, by ratio. */
export function nearestStep(steps, step) {
  const gaps = steps.map((each) => Math.abs(Math.log(each / step)));
  return gaps.indexOf(Math.min(...gaps));
}

/** Ticks from 0 at equal distances, with their texts. */
function evenTicks(last, distance) {
  return Array.from({length: Math.floor(last / distance) + 1}, (_, i) => [i * distance, integer(i * distance)]);
}

/** Exponents for the ticks of an axis, at most `most` + 1. */
export function powers(low, high, most) {
  const every = Math.max(1, Math.ceil((high - low) / most));
  const exponents = [];
  for (let power = low; power <= high; power += every) exponents.push(power);
  return exponents;
}

export const powerText = (power) => significant(Number(`1e${power}`));

/** Sentence with the values after a step. @param {Racer[]} racers with values */
export function conclusion(steps, racers, index, {valid = true, write = epsilonText} = {}) {
  if (!valid) return "Batches are shuffled: none of these numbers holds";
  const of = (status) => racers.filter((racer) => racer.status === status).map(({epsilon}) => epsilon[index]);
  const [[truth = null], bounds, guesses] = ["exact", "bound", "approximation"].map(of);
  const said = truth === null ? [] : [`exactly ε = ${write(truth)}`];
  if (bounds.length > 0) said.push(`by bounds up to ${write(bounds.includes(null) ? null : Math.max(...bounds))}`);
  for (const guess of guesses.filter((value) => value !== null)) {
    const isBelow = truth !== null && guess < truth * (1 - NOTICEABLE);
    said.push(`by an approximation ${write(guess)}${isBelow ? ", below the truth" : ""}`);
  }
  const count = steps[index] === 1 ? "1 step" : `${integer(steps[index])} steps`;
  return `After ${count}: ${said.join(", ") || "no accountant has an answer"}`;
}

/** ε as text: at most four significant digits, rounded up. */
export function epsilonText(value) {
  if (value === null || value === undefined) return "∞";
  if (value === 0) return "0";
  const unit = 10 ** (Math.floor(Math.log10(value)) - 3);
  const up = Math.ceil(Number((value / unit).toPrecision(9))) * unit;
  return significant(Number(up.toPrecision(4)), 4);
}

/** Relative difference from the exact value, as text. */
export function against(value, truth) {
  if (!(value > 0) || !(truth > 0)) return "";
  const ratio = value / truth;
  if (ratio >= 2) return `${ratio < 100 ? decimals(ratio, ratio < 10 ? 2 : 1) : integer(ratio)} ×`;
  const percent = 100 * (ratio - 1);
  const size = Math.abs(percent);
  if (size < 0.05) return "0 %";
  return `${percent > 0 ? "+" : "−"} ${decimals(size, size < 10 ? 1 : 0)} %`;
}

/** Values at one step, one row per accountant. @returns {object[]} */
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

/** Table of the whole race, one row per step. */
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
