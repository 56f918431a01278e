/** The layers of the model as a picture, each with its way of clipping. */

import {element} from "../lib/page.js";
import {integer, plural, significant} from "../lib/format.js";
import {area, make} from "../lib/svg.js";

const WIDTH = 84;
const HEIGHT = 34;
const NARROWEST = 0.16;
const METHODS = {ghost: "norm without gradients (ghost)", instantiate: "norm of its gradients (instantiated)"};

/**
 * @typedef {object} Stage a step of a record's way through the model
 * @property {string} name
 * @property {string} detail
 * @property {"record" | "fixed" | "learned"} kind
 * @property {number} from width of its upper edge, 0 to 1
 * @property {number} to width of its lower edge
 */

/**
 * Pure: from the record to the scores. A width is the logarithm of how many values there are.
 * @param {import("./layer_table.js").Layer[]} layers with their `norm_method`
 * @param {{input_shape: number[], fixed: number[] | null, isPrivate: boolean}} about the data set, fixed features, the run
 * @returns {Stage[]}
 */
export function stages(layers, {input_shape, fixed, isPrivate}) {
  const shapes = [input_shape, ...(fixed ? [fixed] : []), ...layers.map(({output_shape}) => output_shape)];
  const sizes = shapes.map((shape) => shape.reduce((product, length) => product * length, 1));
  const most = Math.log(Math.max(...sizes));
  const width = (size) => NARROWEST + (1 - NARROWEST) * (most ? Math.log(size) / most : 1);
  const found = [{name: "Record", detail: shapeText(input_shape), kind: "record", from: width(sizes[0]), to: width(sizes[0])}];
  if (fixed) found.push({name: `Scattering → ${shapeText(fixed)}`, detail: "fixed, nothing is learned", kind: "fixed", from: width(sizes[0]), to: width(sizes[1])});
  layers.forEach((layer, i) => {
    const before = sizes.length - layers.length - 1 + i;
    found.push({name: `${layer.kind} → ${shapeText(layer.output_shape)}`, detail: detailOf(layer, isPrivate), kind: "learned", from: width(sizes[before]), to: width(sizes[before + 1])});
  });
  return found;
}

function detailOf({parameters, norm_method, reason}, isPrivate) {
  const count = `${integer(parameters)} parameters`;
  if (!isPrivate) return count;
  if (!norm_method) return `${count}; clipped by the method that its first step chooses`;
  return `${count}; ${METHODS[norm_method]}: ${reason}`;
}

const shapeText = (shape) => shape.filter((length, i) => i > 0 || length > 1 || shape.length === 1).join(" × ");

/** Pure. @param {number | null} bytes @param {number | null} records */
export function memoryText(bytes, records) {
  if (bytes === null) return "";
  const size = bytes < 1e6 ? `${significant(bytes / 1e3, 2)} kB` : `${significant(bytes / 1e6, 2)} MB`;
  return `A private step of ${integer(records)} records needed ${size} in addition to batch and weights (measured once).`;
}

export class ModelCard {
  /** @param {HTMLElement} root @param {Record<string, any>} catalogue */
  constructor(root, catalogue) {
    this.root = root;
    this.catalogue = catalogue;
  }

  /** @param {Record<string, any> | null} plan null: the settings are not in order @param {Record<string, any>} config */
  show(plan, config) {
    const data = this.catalogue.data_sets[config?.dataset];
    this.root.hidden = !plan || !data;
    if (this.root.hidden) return;
    const fixed = this.catalogue.models[config.model]?.features?.[config.dataset] ?? null;
    const drawn = stages(plan.layers, {input_shape: data.input_shape, fixed, isPrivate: config.private});
    this.part("heading").textContent = `${plural(plan.parameters, "parameter")} in ${plural(plan.layers.length, "layer")}`;
    this.part("layers").replaceChildren(...drawn.map(item));
    this.part("memory").textContent = memoryText(plan.step_bytes, plan.step_records);
  }

  part(name) {
    return this.root.querySelector(`[data-card-${name}]`);
  }
}

const FILLS = {record: "f-sunken", fixed: "f-twin", learned: "f-private"};

function item({name, detail, kind, from, to}) {
  const edge = (share, y) => [[(WIDTH * (1 - share)) / 2, y], [(WIDTH * (1 + share)) / 2, y]];
  const [upper, lower] = [edge(from, 0), edge(to, HEIGHT)];
  const shape = make({name: "svg", attributes: {class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true"}, content: [area([...upper, ...lower.reverse()], `${FILLS[kind]} outlined`)]});
  return element("li", {}, shape, element("span", {}, element("strong", {}, name), element("small", {}, detail)));
}
