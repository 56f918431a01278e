/** The layers of the model as a table; a tick begins a clipping group. */

import {integer} from "../lib/format.js";

/**
 * @typedef {object} Layer
 * @property {string} name "" if it is the whole model
 * @property {string} kind
 * @property {number[]} output_shape
 * @property {number} parameters
 * @property {boolean} begins_group
 */

export class LayerTable {
  /**
   * @param {HTMLElement} root
   * @param {(heads: string) => void} onHeads names of the layers that begin a group
   */
  constructor(root, onHeads) {
    this.root = root;
    root.addEventListener("change", (event) => event.target.dataset.head !== undefined && onHeads(this.heads));
  }

  get heads() {
    return [...this.root.querySelectorAll("[data-head]")].filter((box) => box.checked).map((box) => box.dataset.head).join(", ");
  }

  /** @param {{layers: Layer[], parameters: number} | null} plan null: the settings are not in order */
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

/** Whether the boxes are those of these layers: then the focus stays where it is. */
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
  box.disabled = place === 0; // every layer is in a group
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
