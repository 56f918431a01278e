/** Part of the model view: heading, table, bars and pictures. */

import {box, make, rule, showTable} from "../../lib/svg.js";

export class Part {
  /** @param {HTMLElement} root of the view @param {string} name in [data-model-part] */
  constructor(root, name) {
    this.root = root.querySelector(`[data-model-part="${name}"]`);
    this.heading = this.root.querySelector("[data-heading]");
    this.sub = this.root.querySelector("[data-sub]");
    this.drawing = this.root.querySelector("[data-drawing]");
    this.table = this.root.querySelector("[data-table]");
    this.button = this.root.querySelector("[data-show-table]");
    this.rows = null;
    this.button?.addEventListener("click", () => this.toggle());
  }

  hide() {
    this.root.hidden = true;
  }

  /**
   * @param {object} shown
   * @param {string} shown.conclusion
   * @param {string} [shown.sub]
   * @param {() => import("../../lib/svg.js").Rows} [shown.table]
   */
  show({conclusion, sub, table}) {
    this.root.hidden = false;
    if (this.heading.textContent !== conclusion) this.heading.textContent = conclusion;
    if (sub !== undefined && this.sub.textContent !== sub) this.sub.textContent = sub;
    this.rows = table ?? null;
    this.fill();
  }

  toggle() {
    this.table.hidden = !this.table.hidden;
    this.button.setAttribute("aria-expanded", String(!this.table.hidden));
    this.button.textContent = this.table.hidden ? "Show as table" : "Hide table";
    this.fill();
  }

  fill() {
    if (this.rows && this.table && !this.table.hidden) showTable(this.table, this.rows());
  }
}

const WIDTH = 200;
const HEIGHT = 22;

/**
 * @param {object} drawn
 * @param {number} drawn.value 0 to 1, or −1 to 1 if signed
 * @param {number | null} drawn.mark value of the twin; null without a twin
 * @param {string} [drawn.css] class of the bar
 * @param {boolean} [drawn.signed] if true, the bar starts in the middle
 */
export function bar({value, mark, signed = false, css = value < 0 ? "f-ink" : "f-private"}) {
  const zero = signed ? WIDTH / 2 : 0;
  const length = (share) => share * (signed ? WIDTH / 2 : WIDTH);
  const [from, to] = [zero, zero + length(value)].sort((a, b) => a - b);
  const stroke = mark === null ? [] : [rule([zero + length(mark), 1], [zero + length(mark), HEIGHT - 1], "line s-twin")];
  const axis = signed ? [rule([zero, 0], [zero, HEIGHT], "axis")] : [];
  const marks = [box([from, 5], to - from, 12, css), ...axis, ...stroke];
  return make({name: "svg", attributes: {class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true"}, content: marks});
}

/** @param {ArrayLike<number>} ink 0 to 1 @param {number[]} colour red, green and blue */
export function inked(ink, colour) {
  const data = new Uint8ClampedArray(4 * ink.length);
  ink.forEach((amount, i) => {
    data.set(colour, 4 * i);
    data[4 * i + 3] = Math.round(255 * amount);
  });
  return data;
}
