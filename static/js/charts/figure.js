/** SVG figure with its heading, and its table and saved files if the page has buttons for them. */

import {unbroken} from "../lib/format.js";
import {savePicture} from "../lib/picture.js";
import {Chart, csv, save, showTable} from "../lib/svg.js";

/**
 * @typedef {object} Shown
 * @property {string} conclusion
 * @property {() => import("../lib/svg.js").Rows & {names: string[], values: (number | null)[][]}} table
 * `rows` as text, and `values` as numbers with column names for CSV
 * @property {string | string[]} note below a saved picture
 */

export class Figure {
  /**
   * @param {HTMLElement} figure
   * @param {{file: string, height: (width: number) => number, draw: (chart: Chart) => import("../lib/svg.js").Mark[]}} options
   * `file`: name of saved files, without extension
   */
  constructor(figure, {file, height, draw}) {
    this.file = file;
    this.draw = draw;
    this.plot = figure.querySelector("[data-plot]");
    this.heading = figure.querySelector("[data-conclusion], [data-title]");
    this.table = figure.querySelector("[data-table]");
    this.still = figure.querySelector("[data-still]");
    /** @type {Shown | null} */
    this.shown = null;
    this.chart = new Chart(this.plot, {height, label: this.heading.textContent, draw: () => this.paint()});
    this.chart.svg.style.display = "none"; // the server's drawing stays visible until there is data
    this.wire(figure);
  }

  wire(figure) {
    const button = figure.querySelector("[data-show-table]");
    button?.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      button.setAttribute("aria-expanded", String(!this.table.hidden));
      button.textContent = this.table.hidden ? "Show as table" : "Hide table";
      this.fillTable();
    });
    for (const saver of figure.querySelectorAll("[data-save]")) saver.addEventListener("click", () => this.save(saver.dataset.save));
  }

  /** @param {Shown} shown */
  show(shown) {
    this.shown = shown;
    const words = unbroken(shown.conclusion);
    if (this.heading.textContent !== words) this.heading.textContent = words;
    this.chart.svg.setAttribute("aria-label", shown.conclusion);
    this.fillTable();
    this.paint();
  }

  paint() {
    if (!this.shown || this.chart.width === 0) return;
    this.chart.show(this.draw(this.chart));
    this.still?.remove();
    this.still = null;
    this.chart.svg.style.display = "";
  }

  fillTable() {
    if (this.table && !this.table.hidden && this.shown) showTable(this.table, this.shown.table());
  }

  /** @param {"csv" | "svg" | "png"} kind */
  save(kind) {
    if (!this.shown) return;
    const {conclusion, note, table} = this.shown;
    if (kind !== "csv") {
      savePicture(this.chart.svg, {title: conclusion, note}, this.file, kind);
      return;
    }
    const {names, values} = table();
    save(`${this.file}.csv`, csv(names, values));
  }
}
