/**
 * Map of contours of equal ε over epochs and noise, with the planned run. `figure.py` draws the same map for pages
 * without scripts.
 *
 * @typedef {object} Contour
 * @property {number} epsilon
 * @property {number[]} epochs
 * @property {number[]} noise_multiplier
 *
 * @typedef {object} MapView response of /api/v1/privacy/budget_map, with ticks and the planned run
 * @property {[number, number]} epochs range of the map
 * @property {[number, number]} noise_multiplier
 * @property {Contour} budget contour of the budget, along which the point moves
 * @property {Contour[]} contours
 * @property {{epochs: number[], noise_multiplier: number[]}} ticks
 * @property {{epochs: number, noise_multiplier: number, epsilon_text: string} | null} point
 */

import {integer, roundUp, significant} from "../../../../static/js/lib/format.js";
import {clamp, disc, line, rule, text} from "../../../../static/js/lib/svg.js";

const MARGIN = {left: 44, right: 64, top: 28, bottom: 44};
const NARROW = 560; // px
const NEAR = 0.12; // powers of ten; smaller distances of two ε would overlap their labels
const REACH = 24; // px, largest distance between the pointer and a highlighted contour

/** @returns {number} height in px for a chart's width */
export const heightOf = (width) => (width < NARROW ? 330 : 400);

/**
 * Marks of the map; the contour at `pointer` gets a label.
 * @param {import("../../../../static/js/lib/svg.js").Chart} chart @param {MapView} view @param
 *   {[number, number] | null} [pointer] in pixels
 */
export function marks(chart, view, pointer = null) {
  const {budget, point, ticks} = view;
  const [left, top, right, bottom] = [MARGIN.left, MARGIN.top, chart.width - MARGIN.right, chart.height - MARGIN.bottom];
  const [low, high] = view.noise_multiplier.map(Math.log10);
  const {x} = chart.frame(view.epochs, [low, high], [left, top, right, bottom], {logX: true});
  const y = (noise) => chart.y(Math.log10(noise));
  const all = [text([left - 8, top - 12], "σ", "", "end")];
  for (const noise of ticks.noise_multiplier) all.push(rule([left, y(noise)], [right, y(noise)]), text([left - 8, y(noise) + 4.5], noise, "", "end"));
  all.push(rule([left, bottom], [right, bottom], "axis"));
  for (const epochs of ticks.epochs) all.push(rule([x(epochs), bottom], [x(epochs), bottom + 5], "axis"), text([x(epochs), bottom + 19], epochs, "", "middle"));
  all.push(text([right, bottom + 37], "epochs, log scale", "", "end"));
  const lines = drawnLines(view).map((each) => ({...each, points: within(each, view.noise_multiplier)}));
  for (const {epsilon, points, colour} of lines) {
    all.push(line(points.map(([epochs, noise]) => [x(epochs), y(noise)]), `s-${colour}${colour === "budget" ? "" : " thin"}`));
    if (points.length < 2) continue;
    const [epochs, noise] = points.at(-1);
    const isRight = epochs > 0.999 * view.epochs[1];
    all.push(text([x(epochs) + 6, y(noise) + (isRight ? 4.5 : -6)], `ε = ${significant(epsilon)}`, `${colour} halo`));
  }
  if (point && isInside(point.epochs, view.epochs) && isInside(point.noise_multiplier, view.noise_multiplier)) {
    all.push(disc([x(point.epochs), y(point.noise_multiplier)], 8, "handle"));
  }
  const read = pointer && nearestLine(lines, pointer, x, y);
  if (read) all.push(text([clamp(pointer[0], left + 24, right - 24), pointer[1] - 14], `ε = ${significant(read.epsilon)}`, "ink halo", "middle"));
  return all;
}

/** Drawn contours: the budget last, without contours that are too close to it. */
export function drawnLines({budget, contours}) {
  const apart = contours.filter(({epsilon}) => Math.abs(Math.log10(epsilon / budget.epsilon)) > NEAR);
  return [...apart.map((each) => ({...each, colour: "private"})), {...budget, colour: "budget"}];
}

/**
 * Part of a contour between two noise multipliers, with interpolated ends. @returns {[number, number][]} epochs and
 * noise
 */
export function within({epochs, noise_multiplier: noise}, ends) {
  const kept = [];
  for (const [i, x] of epochs.entries()) {
    if (i > 0) for (const level of ends) {
      if ((noise[i - 1] - level) * (noise[i] - level) >= 0) continue;
      const share = Math.log(level / noise[i - 1]) / Math.log(noise[i] / noise[i - 1]);
      kept.push([epochs[i - 1] * (x / epochs[i - 1]) ** share, level]);
    }
    if (isInside(noise[i], ends)) kept.push([x, noise[i]]);
  }
  return kept;
}

const isInside = (value, [low, high]) => value >= low && value <= high;

/** Contour at the pointer, null if none is near. */
function nearestLine(lines, [left, top], x, y) {
  const distances = lines.map(({points}) => {
    const after = points.findIndex(([epochs]) => x(epochs) >= left);
    if (after < 1) return Infinity;
    const [[x0, y0], [x1, y1]] = [points[after - 1], points[after]].map(([epochs, noise]) => [x(epochs), y(noise)]);
    return Math.abs(y0 + ((y1 - y0) * (left - x0)) / (x1 - x0) - top);
  });
  const least = Math.min(...distances);
  return least <= REACH ? lines[distances.indexOf(least)] : null;
}

/** Plan at a pixel of the drawing, limited to the map. @param {import("../../../../static/js/lib/svg.js").Chart} chart */
export function under(chart, view, [left, top]) {
  const kept = (value, [low, high]) => Number(clamp(value, low, high).toPrecision(3));
  return {
    epochs: kept(chart.x.back(left), view.epochs),
    noise_multiplier: kept(10 ** chart.y.back(top), view.noise_multiplier),
  };
}

/** Heading with the numbers of the planned run. */
export function conclusion({point, budget}) {
  if (!point) return "Where the same ε is spent";
  const noise = roundUp(point.noise_multiplier, 3);
  return `${significant(point.epochs)} epochs at σ = ${noise} spend ε = ${point.epsilon_text}${Number(point.epsilon_text) <= budget.epsilon ? "" : `, more than ${significant(budget.epsilon)}`}`;
}

/** Noise of each contour at each of the map's numbers of epochs. */
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

/**
 * Effect of a larger batch at equal ε and epochs. The noise of the run is the noise of an update divided by the root
 * of the number of updates.
 * @param {{expected_batch_size: number, steps: number, noise_per_update: number}[]} rows smallest batch first
 */
export function batchesConclusion(rows) {
  const [first, last] = [rows[0], rows.at(-1)];
  const update = first.noise_per_update / last.noise_per_update;
  const run = update * Math.sqrt(last.steps / first.steps);
  const sizes = [last, first].map((row) => integer(row.expected_batch_size));
  return `At this ε and these epochs, a batch of ${sizes[0]} carries ${significant(update, 2)} times less noise per update than one of ${sizes[1]}, and ${significant(run, 2)} times less over the run`;
}
