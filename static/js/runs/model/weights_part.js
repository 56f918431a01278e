/** Ten pictures of weights, redrawn at each evaluation, above those of the twin. */

import {element, rgb} from "../../lib/page.js";
import {integer} from "../../lib/format.js";
import {filtersConclusion, fullColour, pixels, rimStrength, weightRows, weightsConclusion} from "../../charts/model/weight_images.js";
import {Part} from "./part.js";

export class WeightsPart extends Part {
  constructor(root) {
    super(root, "weights");
    this.grid = null;
    this.why = root.querySelector("[data-no-picture]");
  }

  /** @param {import("./seen.js").SeenModel} seen @param {object} about the run: its plan, its labels, its twin */
  update(seen, {plan, twin, settled}) {
    const images = imagesOf(seen, plan);
    this.why.hidden = images !== null || seen.features !== null;
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
      settled,
      table: () => ({
        caption: `Where ink counts most for each ${images.what} and most against it, by row and column of the picture`,
        heads: [capital(images.what), "most for", "at", "most against", "at"],
        rows: weightRows(images.change, side, labels),
      }),
    });
  }

  /** Rows and canvases are made once for a number of rows; afterwards only words and pixels change. */
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

/** The pictures that a model's weights are: one a class, or one a filter of the first layer; null if they are none. */
function imagesOf(seen, plan) {
  const side = pictureSide(seen, plan);
  if (side !== null) return {side, change: seen.change, labels: plan.labels, what: "class", conclusion: weightsConclusion(rimStrength(seen.change, side), plan.private)};
  if (!seen.filters) return null;
  const {count, change, start} = seen.filters;
  const labels = Array.from({length: count}, (_, i) => String(i + 1));
  return {side: seen.filters.side, change, labels, what: "filter", conclusion: filtersConclusion(change, start)};
}

/** The side of square pictures whose pixels the weights are of, else null. */
export function pictureSide({change, layer}, plan) {
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

/** Many pictures are drawn smaller. */
function imagesClass(labels) {
  return labels.length > 10 ? "images many" : "images";
}

/** What the two swatches of the legend look like, as red, green and blue. */
function colours(root) {
  return ["for", "against"].map((side) => rgb(getComputedStyle(root.querySelector(`[data-swatch="${side}"]`)).backgroundColor));
}
