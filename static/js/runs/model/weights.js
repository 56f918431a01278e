/** Pictures of weights, redrawn at each evaluation, above the twin's pictures. */

import {decimals, integer, percent} from "../../lib/format.js";
import {element, rgb} from "../../lib/page.js";
import {Part} from "./part.js";

const RIM = 2; // px at each side where no picture has ink
const SHARE = 0.995; // quantile of the changes that gets full colour; larger changes look equal
const DROWNED = 0.8;
const FAINT = 0.05;

/** Change that gets full colour. @param {Float32Array} change */
export function fullColour(change) {
  const sizes = Float32Array.from(change, Math.abs).sort();
  return sizes[Math.floor(SHARE * (sizes.length - 1))] || sizes.at(-1) || 1;
}

/** Mean change at the rim divided by the mean change inside it; null without any change. */
export function rimStrength(change, side) {
  const sums = {rim: 0, middle: 0};
  const counts = {rim: 0, middle: 0};
  change.forEach((value, i) => {
    const [row, column] = [Math.floor(i / side) % side, i % side];
    const isRim = Math.min(row, column, side - 1 - row, side - 1 - column) < RIM;
    const part = isRim ? "rim" : "middle";
    sums[part] += value * value;
    counts[part] += 1;
  });
  if (sums.middle === 0) return null;
  return Math.sqrt(sums.rim / counts.rim / (sums.middle / counts.middle));
}

/**
 * Pixels of a canvas: the colour is the sign of a change, the opacity its size.
 * @param {Float32Array} change of one class
 * @param {number} full change that gets full colour
 * @param {number[]} speaks red, green and blue for positive changes
 * @param {number[]} against red, green and blue for negative changes
 */
export function pixels(change, full, speaks, against) {
  const data = new Uint8ClampedArray(4 * change.length);
  change.forEach((value, i) => {
    data.set(value > 0 ? speaks : against, 4 * i);
    data[4 * i + 3] = Math.round(255 * Math.min(1, Math.abs(value) / full));
  });
  return data;
}

/** @param {number | null} strength return value of `rimStrength` @param {boolean} noisy if true, training adds noise */
export function weightsConclusion(strength, noisy) {
  if (strength === null) return "No weight has moved yet";
  const share = percent(strength, 0);
  if (!noisy) return strength < FAINT ? "Without noise the rim, where no picture has ink, stays empty" : `The rim, where few pictures have ink, has moved ${share} as far as the middle`;
  if (strength > DROWNED) return `Noise drowns the pictures: the rim, where hardly one has ink, has moved ${share} as far as the middle`;
  return `The pictures show through the noise: the rim, where hardly one has ink, has moved ${share} as far as the middle`;
}

/** @param {Float32Array} change of a layer's filters @param {Float32Array} start initial filters */
export function filtersConclusion(change, start) {
  const size = (values) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  const moved = size(change) / size(start);
  if (moved === 0) return "No weight has moved yet";
  return `The filters of the first layer have moved ${decimals(moved, 1)} times as far as they were from zero`;
}

/** One row per class: the pixels with the largest positive and negative change. */
export function weightRows(change, side, labels) {
  const size = side * side;
  return labels.map((label, c) => {
    const changes = Array.from(change.subarray(c * size, (c + 1) * size));
    const [high, low] = [Math.max(...changes), Math.min(...changes)];
    return [label, ...extreme(changes, high, side), ...extreme(changes, low, side)];
  });
}

function extreme(changes, value, side) {
  const index = changes.indexOf(value);
  return [decimals(value, 3), `${Math.floor(index / side) + 1}, ${(index % side) + 1}`];
}

export class WeightsPart extends Part {
  constructor(root) {
    super(root, "weights");
    this.grid = null;
    this.why = root.querySelector("[data-no-picture]");
  }

  /** @param {import("./seen.js").SeenModel} seen @param {object} about plan, labels and twin of the run */
  update(seen, {plan, twin}) {
    const images = imagesOf(seen, plan);
    this.why.hidden = images !== null || seen.features !== null || seen.firstTexts !== null;
    if (!images) return this.hide();
    const {side, labels} = images;
    const rows = [{...seen, change: images.change, title: `Now, step ${integer(seen.weightsStep)}`, css: plan.private ? "private" : ""}];
    const other = twin && imagesOf(twin, plan);
    if (other?.change.length === images.change.length) rows.push({...twin, change: other.change, css: "twin"});
    this.build(rows, labels, side);
    rows.forEach((row, i) => this.paint(i, row, side));
    this.show({
      conclusion: images.conclusion,
      sub: `Change of ${side} × ${side} weights per ${images.what} since the start, every row on its own scale`,
      table: () => ({
        caption: `Where ink counts most for each ${images.what} and most against it, by row and column of the picture`,
        heads: [capital(images.what), "most for", "at", "most against", "at"],
        rows: weightRows(images.change, side, labels),
      }),
    });
  }

  /** Create rows and canvases for a number of rows; later calls only change texts and pixels. */
  build(rows, labels, side) {
    const shape = `${rows.length} ${labels.length} ${side}`;
    if (this.shape !== shape) {
      this.shape = shape;
      this.lines = rows.map(() => row(labels, side));
      this.drawing.replaceChildren(heads(labels), ...this.lines.map(({box}) => box));
    }
    rows.forEach(({title, reached, css}, i) => {
      const {box, name, words, canvases} = this.lines[i];
      box.className = `weight-row ${css}`;
      name.textContent = title;
      words.textContent = reached;
      canvases.forEach((canvas, c) => canvas.setAttribute("aria-label", `Weights for ${labels[c]}, ${title}`));
    });
  }

  paint(i, {change}, side) {
    const [speaks, against] = colours(this.root);
    const full = fullColour(change);
    const size = side * side;
    this.lines[i].canvases.forEach((canvas, c) => {
      const image = new ImageData(pixels(change.subarray(c * size, (c + 1) * size), full, speaks, against), side);
      canvas.getContext("2d").putImageData(image, 0, 0);
    });
  }
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);

/**
 * Pictures of a model's weights: one per class, or one per filter of the first layer; null if weights are not
 * pictures.
 */
function imagesOf(seen, plan) {
  const side = pictureSide(seen, plan);
  if (side !== null) return {side, change: seen.change, labels: plan.labels, what: "class", conclusion: weightsConclusion(rimStrength(seen.change, side), plan.private)};
  if (!seen.filters) return null;
  const {count, change, start} = seen.filters;
  const labels = Array.from({length: count}, (_, i) => String(i + 1));
  return {side: seen.filters.side, change, labels, what: "filter", conclusion: filtersConclusion(change, start)};
}

/** Side of the square pictures whose pixels are the model's inputs, otherwise null. */
function pictureSide({change, layer}, plan) {
  const [channels, height, width] = plan.input_shape ?? [];
  if (!change || channels !== 1 || height !== width || layer.inputs !== height * width) return null;
  return height;
}

function heads(labels) {
  return element("div", {class: "weight-row heads", "aria-hidden": "true"}, element("span"), element("div", {class: imagesClass(labels)}, ...labels.map((label) => element("span", {}, label))));
}

function row(labels, side) {
  const name = element("strong");
  const words = element("small");
  const canvases = labels.map(() => element("canvas", {width: side, height: side, role: "img"}));
  return {name, words, canvases, box: element("div", {class: "weight-row"}, element("div", {class: "row-name"}, name, words), element("div", {class: imagesClass(labels)}, ...canvases))};
}

/** More than ten pictures are drawn smaller. */
function imagesClass(labels) {
  return labels.length > 10 ? "images many" : "images";
}

/** Colours of the legend's two swatches, as red, green and blue. */
function colours(root) {
  return ["for", "against"].map((side) => rgb(getComputedStyle(root.querySelector(`[data-swatch="${side}"]`)).backgroundColor));
}
