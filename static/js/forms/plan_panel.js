/** Plan of the current settings: privacy spent, layers, and the diagram of the model. */

import {exponential, integer, plural, roundUp, significant} from "../lib/format.js";
import {element} from "../lib/page.js";
import {area, make} from "../lib/svg.js";

const NONE = "–";

/** Text of each value of the plan. Noise is rounded up, so that typing the printed value spends no more privacy. */
export const TEXTS = {
  epsilon: (plan) => plan.epsilon_text,
  delta: (plan) => exponential(plan.delta),
  noise_multiplier: (plan) => (plan.private ? `${plan.noise_is_bound ? "≤ " : ""}${noiseText(plan)}` : "0"),
  sample_rate: (plan) => significant(plan.sample_rate),
  sampling: (plan) => plan.sampling_words,
  batches: (plan) => plan.batch_words,
  steps: (plan) => integer(plan.steps),
  epochs: (plan) => significant(plan.epochs),
};

const RELATIONS = {add_or_remove_one: "add or remove one record"};

/** σ, or its range if it changes between the first and the last step. */
function noiseText({noise_multiplier: first, last_noise_multiplier: last = first}) {
  return first === last ? roundUp(first, 3) : `${roundUp(first, 3)} to ${roundUp(last, 3)}`;
}

export class PlanPanel {
  /** @param {HTMLElement} root contains [data-plan], [data-truth], [data-when], [data-note] */
  constructor(root, catalogue) {
    this.root = root;
    this.catalogue = catalogue;
  }

  /** @param {Record<string, any> | null} plan null if the settings are invalid */
  show(plan) {
    for (const cell of this.root.querySelectorAll("[data-plan]")) {
      const write = TEXTS[cell.dataset.plan];
      cell.textContent = plan ? (write?.(plan) ?? this.catalogue.accountants[plan.accountant]) : NONE;
    }
    showTruth(this.root, plan);
  }

  note(name, text) {
    this.root.querySelector(`[data-note="${name}"]`).textContent = text;
  }
}

/** Show whether the values of ε in `root` are exact, bounds or approximations. */
export function showTruth(root, plan) {
  for (const badge of root.querySelectorAll("[data-truth]")) {
    badge.hidden = plan === null;
    badge.className = `badge ${plan?.private ? plan.status : "not-private"}`;
    badge.textContent = plan?.private ? claim(plan) : "not private";
  }
  for (const words of root.querySelectorAll("[data-sampling]")) words.textContent = plan?.sampling_words ?? "";
  for (const words of root.querySelectorAll("[data-when]")) {
    words.hidden = words.dataset.when !== whenOf(plan);
  }
}

/** Status of an ε as text. */
function claim({accountant, status}) {
  return accountant === "filter" ? `${status} (filter)` : status;
}

function whenOf(plan) {
  if (plan === null) return "unknown";
  return plan.private ? "private" : "open";
}

/** Conditions that apply to every ε of a plan. */
export function terms(plan, catalogue) {
  if (!plan.private) return "No noise: there is no guarantee.";
  const relation = RELATIONS[plan.neighboring_relation];
  const label = catalogue.accountants[plan.accountant];
  const claim = sameWord(label, plan.status) ? "" : `, ${plan.status}`;
  return `ε at δ = ${exponential(plan.delta)}, ${relation}, ${plan.sampling_words}; accountant: ${label}${claim}`;
}

/** Name of an accountant with its status, unless the name includes the status. */
export function accountantName(name, {accountants, claims}) {
  const label = accountants[name];
  return sameWord(label, claims[name]) ? label : `${label}: ${claims[name]}`;
}

function sameWord(a, b) {
  return a.toLowerCase() === b.toLowerCase();
}

/**
 * @typedef {object} Layer
 * @property {string} name "" for the model as a whole
 * @property {string} kind
 * @property {number[]} output_shape
 * @property {number} parameters
 * @property {boolean} begins_group
 */

export class LayerTable {
  /**
   * @param {HTMLElement} root
   * @param {(heads: string) => void} onHeads receives the names of the layers that begin a group
   */
  constructor(root, onHeads) {
    this.root = root;
    root.addEventListener("change", (event) => event.target.dataset.head !== undefined && onHeads(this.heads));
  }

  get heads() {
    return [...this.root.querySelectorAll("[data-head]")].filter((box) => box.checked).map((box) => box.dataset.head).join(", ");
  }

  /** @param {{layers: Layer[], parameters: number} | null} plan null if the settings are invalid */
  show(plan) {
    this.root.querySelector("[data-layer-total]").textContent = plan ? integer(plan.parameters) : "–";
    if (!plan) return;
    const rows = [...this.root.querySelectorAll("[data-head]")];
    if (sameLayers(rows, plan.layers)) rows.forEach((box, i) => (box.checked = plan.layers[i].begins_group));
    else this.root.querySelector("[data-layer-rows]").replaceChildren(...plan.layers.map(rowOf));
    this.printed = cellsOf(plan.layers);
    [...this.root.querySelectorAll("[data-layer-rows] tr")].forEach((row, i) => {
      this.printed[i].forEach((text, place) => (row.cells[place].textContent = text));
    });
  }
}

/** True if the boxes already belong to these layers; keeping them keeps the focus. */
function sameLayers(boxes, layers) {
  return boxes.length === layers.length && boxes.every((box, i) => box.dataset.head === layers[i].name);
}

/** @param {Layer[]} layers */
export function cellsOf(layers) {
  return layers.map(({name, kind, output_shape, parameters}) => [name || "whole", kind, output_shape.join(" × "), integer(parameters)]);
}

function rowOf({name, begins_group}, place) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  const box = document.createElement("input");
  box.type = "checkbox";
  box.autocomplete = "off";
  box.dataset.head = name;
  box.checked = begins_group;
  box.disabled = place === 0; // the first layer always begins a group
  box.setAttribute("aria-label", `A clipping group begins at layer ${name || "whole"}`);
  const cells = ["", "n", "n", "private-only needs-script"].map((side) => {
    const cell = document.createElement("td");
    cell.className = side;
    return cell;
  });
  cells[3].append(box);
  row.append(head, ...cells);
  return row;
}

const WIDTH = 84;
const HEIGHT = 34;
const NARROWEST = 0.16;
const METHODS = {ghost: "norm without gradients (ghost)", instantiate: "norm of its gradients (instantiated)"};

/**
 * @typedef {object} Stage a stage of the model
 * @property {string} name
 * @property {string} detail
 * @property {"record" | "fixed" | "learned"} kind
 * @property {number} from width of its upper edge, 0 to 1
 * @property {number} to width of its lower edge
 */

/**
 * Pure: stages from the record to the scores. Widths are the logarithms of the numbers of values.
 * @param {Layer[]} layers with their `norm_method`
 * @param {{input_shape: number[], fixed: number[] | null, isPrivate: boolean}} about data set, shape of fixed
 *   features, and run
 * @returns {Stage[]}
 */
export function stages(layers, {input_shape, fixed, isPrivate}) {
  const shapes = [input_shape, ...(fixed ? [fixed] : []), ...layers.map(({output_shape}) => output_shape)];
  const sizes = shapes.map((shape) => shape.reduce((product, length) => product * length, 1));
  const most = Math.log(Math.max(...sizes));
  const width = (size) => NARROWEST + (1 - NARROWEST) * (most ? Math.log(size) / most : 1);
  const result = [{name: "Record", detail: shapeText(input_shape), kind: "record", from: width(sizes[0]), to: width(sizes[0])}];
  if (fixed) result.push({name: `Scattering → ${shapeText(fixed)}`, detail: "fixed, nothing is learned", kind: "fixed", from: width(sizes[0]), to: width(sizes[1])});
  layers.forEach((layer, i) => {
    const before = sizes.length - layers.length - 1 + i;
    result.push({name: `${layer.kind} → ${shapeText(layer.output_shape)}`, detail: detailOf(layer, isPrivate), kind: "learned", from: width(sizes[before]), to: width(sizes[before + 1])});
  });
  return result;
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

  /** @param {Record<string, any> | null} plan null if the settings are invalid @param {Record<string, any>} config */
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
