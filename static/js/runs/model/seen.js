/** Model of a run at a position of its log, and its twin: the comparable run without privacy. */

import {FILTER} from "../../charts/plan.js";
import {getJson} from "../../lib/api.js";
import {percent, roundUp, significant} from "../../lib/format.js";

/**
 * @typedef {object} LinearLayer
 * @property {number} classes
 * @property {number} inputs
 * @property {Float32Array} matrix [classes, inputs], row-major
 * @property {Float32Array} bias [classes]
 */

const layers = new WeakMap();

/** The layer, or null if the model is not linear. @returns {LinearLayer | null} */
export function linearLayer(weights) {
  if (!weights) return null;
  if (!layers.has(weights)) layers.set(weights, read(weights));
  return layers.get(weights);
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
 * Filters of a first layer that is a convolution of grey pictures.
 * @returns {{count: number, side: number, values: Float32Array} | null} null for other first layers
 */
export function firstFilters(weights) {
  if (!weights) return null;
  const [name] = Object.keys(weights);
  const [count, channels, height, width] = weights[name].shape;
  if (weights[name].shape.length !== 4 || channels !== 1 || height !== width) return null;
  return {count, side: height, values: tensors({[name]: weights[name]})[name].values};
}

/** Change of each weight since the start: [classes, inputs]. */
export function changeOf(layer, start) {
  return layer.matrix.map((weight, i) => weight - start.matrix[i]);
}

/** Score of each class. @param {LinearLayer} layer @param {ArrayLike<number>} features @returns {number[]} */
export function scores({classes, inputs, matrix, bias}, features) {
  return Array.from({length: classes}, (_, c) => {
    let sum = bias[c];
    for (let i = 0; i < inputs; i++) sum += matrix[c * inputs + i] * features[i];
    return sum;
  });
}

/** Index of the largest value. */
export function largest(values) {
  return values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}

/**
 * @typedef {object} SeenModel
 * @property {Record<string, any>} model data of the last `model` event after an evaluation
 * @property {LinearLayer | null} layer null for non-linear models, or without weights
 * @property {Float32Array | null} change of the layer since the start
 * @property {{count: number, side: number, change: Float32Array, start: Float32Array} | null} filters of a first convolution
 * @property {string[] | null} features names of the columns
 * @property {string[] | null} firstTexts texts of a language model at the start
 * @property {number} weightsStep step of the weights
 * @property {string} title
 * @property {string} reached
 */

/** @param {import("../log/run_log.js").RunLog} log @returns {SeenModel | null} null before the first evaluation */
export function seenModel(log, plan) {
  const model = log.models.findLast(isEvaluated);
  if (!model) return null;
  const spent = plan.accountant === FILTER ? `budget ε ${plan.budget_text}` : `ε ${roundUp(model.epsilon, plan.digits)}`;
  const epsilon = plan.private ? `${spent}, ` : "";
  return {...partsOf(log.models), model, title: `Step ${model.step}`, reached: `${epsilon}${percent(accuracyOf(model))}`};
}

/** True for the data of a `model` event after an evaluation; a language model has no confusion matrix. */
const isEvaluated = ({confusion, accuracy}) => Boolean(confusion) || accuracy !== undefined;

/** @param {Record<string, any>[]} models data of `model` events, in order */
export function partsOf(models) {
  const start = models.find(({step}) => step === 0);
  const weighed = models.findLast(({weights, confusion}) => weights && confusion);
  const layer = linearLayer(weighed?.weights);
  const first = linearLayer(start?.weights);
  return {
    layer,
    change: layer && first ? changeOf(layer, first) : null,
    filters: filtersOf(weighed?.weights, start?.weights),
    features: start?.features ?? null,
    firstTexts: start?.texts ?? null,
    weightsStep: weighed?.step ?? 0,
  };
}

function filtersOf(weights, startWeights) {
  const [now, start] = [firstFilters(weights), firstFilters(startWeights)];
  if (!now || !start) return null;
  return {...now, start: start.values, change: now.values.map((value, i) => value - start.values[i])};
}

export function accuracyOf({confusion, accuracy}) {
  if (!confusion) return accuracy;
  const right = confusion.reduce((sum, row, i) => sum + row[i], 0);
  return right / confusion.flat().reduce((sum, count) => sum + count, 0);
}

/** Training speed of a run on its machine; "" without enough steps. */
export function speedText({steps}) {
  const [first, last] = [steps.at(0), steps.at(-1)];
  if (!last || last.step === first.step || last.seconds === first.seconds) return "";
  return `${significant((last.step - first.step) / (last.seconds - first.seconds), 2)} steps per second here, evaluations included`;
}

/**
 * True if two models differ only in privacy: same initialization and batches, same number of steps, tuned learning
 * rate.
 */
export function isFair(twin, step) {
  return twin.sharesBatches && twin.isTuned && twin.model.step === step;
}

/** Pure: available twins as [id, text]; the recorded twin, or the entry without a twin, has the id "". */
export function options({choices, source}) {
  if (choices.length === 0) return [];
  const own = choices.map(({id, name, learning_rate: rate}) => [id, `your run “${name}”, learning rate ${rate}`]);
  return [["", source === "none" ? "no twin: none is recorded" : "the recorded twin, at its tuned rate"], ...own];
}

export class Twin {
  /** @param {() => void} onFound */
  constructor(onFound) {
    this.onFound = onFound;
    this.url = null;
    this.own = "";
    this.found = null;
    /** @type {[string, string][]} */
    this.options = [];
  }

  /** Twin of the run by the twin's URL; null before it is loaded, or without a twin. */
  of(url) {
    if (url !== this.url) {
      Object.assign(this, {url, own: "", found: null, options: []});
      if (url) this.ask(url);
    }
    return this.found;
  }

  /** Choose another twin: the id of a visitor's run, or "" for the recorded one. */
  choose(own) {
    Object.assign(this, {own, found: null});
    this.ask(this.url);
  }

  async ask(url) {
    const {own} = this;
    const answer = await getJson(own ? `${url}?own=${own}` : url).catch(() => null);
    if (url !== this.url || own !== this.own || !answer) return;
    if (!own) this.options = options(answer);
    const model = answer.models.at(-1);
    this.found = model ? {
      ...partsOf(answer.models), model, note: answer.note, page: answer.page, title: answer.title,
      sharesBatches: answer.shares_batches, isTuned: answer.is_tuned, reached: percent(accuracyOf(model)),
    } : null;
    this.onFound();
  }
}

/**
 * Decoders of base64 data in `model` events; see `training/model_snapshots.py`.
 *
 * @typedef {object} Tensor
 * @property {number[]} shape
 * @property {Float32Array} values in row-major order
 *
 * @typedef {object} Picture
 * @property {number} index in the test set
 * @property {number} label
 * @property {Float32Array} ink 0 to 1, row-major
 */

const SKIP = 15;

/** @param {string} text base64 @returns {Uint8Array} */
export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Parameters by name. @returns {Record<string, Tensor>} */
export function tensors(weights) {
  return Object.fromEntries(Object.entries(weights).map(([name, entry]) => [name, tensor(entry)]));
}

function tensor({shape, scale, values}) {
  const levels = new Int8Array(bytes(values).buffer);
  return {shape, values: Float32Array.from(levels, (level) => level * scale)};
}

/** Predicted class of each misclassified test record, by index. @param {string} text @returns {Map<number, number>} */
export function misreadRecords(text) {
  const predictions = new Map();
  let index = 0;
  for (const byte of bytes(text)) {
    const [upper, lower] = [byte >> 4, byte & 15];
    if (upper === SKIP) index += SKIP * (lower + 1);
    else {
      index += upper;
      predictions.set(index, lower);
      index += 1;
    }
  }
  return predictions;
}

/** @returns {Picture[]} */
export function pictures({shape, indices, labels, values}) {
  const shades = Array.from(bytes(values), (byte) => [byte >> 4, byte & 15]).flat();
  const size = shape[0] * shape[1];
  return indices.map((index, i) => ({
    index,
    label: labels[i],
    ink: Float32Array.from(shades.slice(i * size, (i + 1) * size), (shade) => shade / 15),
  }));
}
