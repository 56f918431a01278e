/** A part of the view of a model: its heading, what it draws, its table. */

import {showTable} from "../../lib/table.js";

const HEADING_MS = 2500; // a heading that is read must not change under the eye

export class Part {
  /** @param {HTMLElement} root of the view @param {string} name of [data-model-part] */
  constructor(root, name) {
    this.root = root.querySelector(`[data-model-part="${name}"]`);
    this.heading = this.root.querySelector("[data-heading]");
    this.sub = this.root.querySelector("[data-sub]");
    this.drawing = this.root.querySelector("[data-drawing]");
    this.table = this.root.querySelector("[data-table]");
    this.button = this.root.querySelector("[data-show-table]");
    this.headingAt = -Infinity;
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
   * @param {boolean} shown.settled nothing more will come: the heading may change at once
   * @param {() => import("../../lib/table.js").Rows} [shown.table]
   */
  show({conclusion, sub, settled, table}) {
    this.root.hidden = false;
    this.write(conclusion, settled);
    if (sub !== undefined && this.sub.textContent !== sub) this.sub.textContent = sub;
    this.rows = table ?? null;
    this.fill();
  }

  write(conclusion, settled) {
    clearTimeout(this.timer);
    if (conclusion === this.heading.textContent) return;
    const wait = settled ? 0 : this.headingAt + HEADING_MS - performance.now();
    if (wait > 0) {
      this.timer = setTimeout(() => this.write(conclusion, true), wait);
      return;
    }
    this.headingAt = performance.now();
    this.heading.textContent = conclusion;
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
