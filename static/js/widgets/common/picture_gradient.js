/**
 * Noisy gradient of a first layer, and the reconstruction of pictures from it, for the lab and for a chapter. No DOM.
 *
 * A unit's weight gradient is the sum of δ x over records, and its bias gradient is the sum of δ. With one record,
 * their quotient is x (Geiping et al. 2020, arXiv:2003.14053).
 *
 * @typedef {object} Model
 * @property {number} units number of units of the first layer
 * @property {(picture: Float64Array, label: number) => {deltas: Float64Array, norm: number}} gradient
 * δ of each unit, and the norm of the whole gradient of one record
 */

import {decimals} from "../../lib/format.js";
import {Generator} from "./random.js";

export const SIDE = 28;
export const PIXELS = SIDE * SIDE;
const CLASSES = 10;
const CLEAR = 0.95; // correlation above which a picture is recognisable in every stroke
const GONE = 0.3;

/** Models and pictures of a recording. @param {Record<string, any>} recorded */
export function decode({pictures, labels, width, weights}) {
  const [first, firstBias, second, secondBias] = ["0.weight", "0.bias", "2.weight", "2.bias"].map((name) => scaled(weights[name]));
  return {
    labels,
    pictures: decodePictures(pictures),
    models: {linear: linear(), hidden: hidden(width, first, firstBias, second, secondBias)},
  };
}

/** Pictures of a string in base64, one byte for each pixel. @param {string} coded @returns {Float64Array[]} */
export function decodePictures(coded) {
  const bytes = Uint8Array.from(atob(coded), (character) => character.charCodeAt(0));
  return Array.from({length: bytes.length / PIXELS}, (_, i) => Float64Array.from(bytes.subarray(i * PIXELS, (i + 1) * PIXELS), (byte) => byte / 255));
}

function scaled({scale, values}) {
  return Float64Array.from(atob(values), (character) => scale * ((character.charCodeAt(0) << 24) >> 24)); // signed bytes
}

/** Linear model with zero weights: all labels have equal probability. @returns {Model} */
export function linear() {
  return {
    units: CLASSES,
    gradient(picture, label) {
      const deltas = errors(new Float64Array(CLASSES), label);
      return {deltas, norm: Math.sqrt(square(deltas) * (square(picture) + 1))};
    },
  };
}

/** One hidden layer of ReLUs. @returns {Model} */
function hidden(width, first, firstBias, second, secondBias) {
  return {
    units: width,
    gradient(picture, label) {
      const active = firstBias.map((bias, i) => Math.max(0, bias + dot(first, i * PIXELS, picture)));
      const scores = secondBias.map((bias, k) => bias + dot(second, k * width, active));
      const wrong = errors(scores, label);
      const deltas = active.map((value, i) => (value > 0 ? wrong.reduce((sum, error, k) => sum + error * second[k * width + i], 0) : 0));
      return {deltas, norm: Math.sqrt(square(deltas) * (square(picture) + 1) + square(wrong) * (square(active) + 1))};
    },
  };
}

/** Gradient of the cross-entropy by the scores: softmax minus the one-hot label. */
function errors(scores, label) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, power) => sum + power);
  return powers.map((power, k) => power / total - (k === label ? 1 : 0));
}

/**
 * Clipped sum of the first layer's gradients over the first `batch` records, without noise.
 * @returns {Float64Array} weights of each unit, followed by its bias
 */
export function clippedSum({models, pictures, labels}, {model, batch, bound}) {
  const {units, gradient} = models[model];
  const sum = new Float64Array(units * (PIXELS + 1));
  for (let j = 0; j < batch; j++) {
    const {deltas, norm} = gradient(pictures[j], labels[j]);
    const factor = Math.min(1, bound / norm);
    for (let i = 0; i < units; i++) {
      const share = factor * deltas[i];
      const offset = i * (PIXELS + 1);
      for (let p = 0; p < PIXELS; p++) sum[offset + p] += share * pictures[j][p];
      sum[offset + PIXELS] += share;
    }
  }
  return sum;
}

/** Standard normal noise for a sum; equal seeds give equal noise. @param {number} length even */
export function noiseOf(length, seed) {
  return new Generator(seed).normals(new Float64Array(length));
}

/**
 * Released weight gradients divided by the released bias gradient, per unit.
 * @param {Float64Array} sum @param {Float64Array} noise @param {number} spread σC
 */
export function quotients(sum, noise, spread) {
  const rows = [];
  for (let offset = 0; offset < sum.length; offset += PIXELS + 1) {
    const bias = sum[offset + PIXELS] + spread * noise[offset + PIXELS];
    if (bias === 0) continue; // no record activates the unit, so it reveals nothing
    rows.push(Float64Array.from({length: PIXELS}, (_, p) => (sum[offset + p] + spread * noise[offset + p]) / bias));
  }
  return rows;
}

/** Row with the highest correlation with a picture, and the correlation. @param {Float64Array[]} rows */
export function bestRow(rows, picture) {
  const correlations = rows.map((row) => correlation(row, picture));
  const best = correlations.reduce((index, value, i) => (value > correlations[index] ? i : index), 0);
  return {row: rows[best], correlation: correlations[best]};
}

/** Pearson correlation; 0 if one vector is constant. */
export function correlation(a, b) {
  const [meanA, meanB] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i] - meanA, b[i] - meanB];
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : 0;
}

/**
 * Results for the page, from its state.
 * @param {ReturnType<typeof decode>} recording
 * @param {{model: string, batch: number, bound: number, noise: number, seed: number}} state
 * @param {number[]} multipliers values of σ in the table
 */
export function release(recording, state, multipliers) {
  const sum = clippedSum(recording, state);
  const noise = noiseOf(sum.length, state.seed);
  const pictures = recording.pictures.slice(0, state.batch);
  const at = (multiplier) => {
    const rows = quotients(sum, noise, multiplier * state.bound);
    return pictures.map((picture) => bestRow(rows, picture));
  };
  return {found: at(state.noise), means: multipliers.map((multiplier) => mean(at(multiplier).map((match) => match.correlation)))};
}

function dot(weights, start, values) {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += weights[start + i] * values[i];
  return sum;
}

function square(values) {
  return dot(values, 0, values);
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Heading of a release. @param {{batch: number, noise: number}} now @param {string} epsilon as text */
export function conclusion({batch, noise}, average, epsilon) {
  const [what, is] = batch === 1 ? ["The picture", "s"] : [`${batch} pictures`, ""];
  return `${what} ${said(noise, average, is)}: r = ${decimals(average)} at σ = ${noise}, ε = ${epsilon}`;
}

/** @param {string} is ending of the verb */
function said(noise, average, is) {
  if (average > CLEAR) return "can be read off the gradient";
  if (average <= GONE) return is ? "is no longer visible" : "are no longer visible";
  return noise === 0 ? `show${is} through the other records` : `show${is} through the noise`;
}
