/** A model that is one linear layer: its matrix, how it has changed, what it answers. */

import {tensors} from "./packed.js";

/**
 * @typedef {object} LinearLayer
 * @property {number} classes
 * @property {number} inputs
 * @property {Float32Array} matrix [classes, inputs], row by row
 * @property {Float32Array} bias [classes]
 */

const known = new WeakMap();

/** The layer, or null if the model is another one. @returns {LinearLayer | null} */
export function linearLayer(weights) {
  if (!weights) return null;
  if (!known.has(weights)) known.set(weights, read(weights));
  return known.get(weights);
}

function read(weights) {
  const parts = Object.values(tensors(weights));
  const matrix = parts.find(({shape}) => shape.length === 2);
  const bias = parts.find(({shape}) => shape.length === 1);
  if (parts.length !== 2 || !matrix || !bias) return null;
  const [classes, inputs] = matrix.shape;
  return {classes, inputs, matrix: matrix.values, bias: bias.values};
}

/**
 * The filters of a first layer that is a convolution of grey pictures.
 * @returns {{count: number, side: number, values: Float32Array} | null} null if the model begins otherwise
 */
export function firstFilters(weights) {
  if (!weights) return null;
  const [name] = Object.keys(weights);
  const [count, channels, height, width] = weights[name].shape;
  if (weights[name].shape.length !== 4 || channels !== 1 || height !== width) return null;
  return {count, side: height, values: tensors({[name]: weights[name]})[name].values};
}

/** How far each weight has moved since the start: [classes, inputs]. */
export function changeOf(layer, start) {
  return layer.matrix.map((weight, i) => weight - start.matrix[i]);
}

/** The score of each class. @param {LinearLayer} layer @param {ArrayLike<number>} features @returns {number[]} */
export function scores({classes, inputs, matrix, bias}, features) {
  return Array.from({length: classes}, (_, c) => {
    let sum = bias[c];
    for (let i = 0; i < inputs; i++) sum += matrix[c * inputs + i] * features[i];
    return sum;
  });
}

/** The place of the largest value. */
export function largest(values) {
  return values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}
