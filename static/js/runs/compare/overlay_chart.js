/** Chart of several runs, with its heading, table and saved files. */

import {MARGIN, conclusion, marks, nearest, pointsOf, rows} from "../../charts/overlay.js";
import {CHARTS, axesOf, nameOf} from "../../charts/overlay_axes.js";
import {decimalsUp} from "../../lib/format.js";
import {savePicture} from "../../lib/picture.js";
import {Chart, csv, save, showTable} from "../../lib/svg.js";

const HEIGHTS = {accuracy: 320, loss: 240, clipped: 240};
const NAMES = {accuracy: "test_accuracy_percent", loss: "test_loss", clipped: "not_private_clipped_percent"};

export class OverlayChart {
  /**
   * @param {HTMLElement} figure
   * @param {{onHover: (letter: string | null, x: number | null) => void}} options
   */
  constructor(figure, {onHover}) {
    this.figure = figure;
    this.name = figure.dataset.chart;
    this.view = null;
    const box = figure.querySelector("[data-plot]");
    this.chart = new Chart(box, {height: HEIGHTS[this.name], label: "", draw: () => this.draw()});
    box.addEventListener("pointermove", (event) => this.hover(event, onHover));
    box.addEventListener("pointerleave", () => onHover(null, null));
    this.table = figure.querySelector("[data-table]");
    this.wire();
  }

  wire() {
    const button = this.figure.querySelector("[data-show-table]");
    button.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      button.setAttribute("aria-expanded", String(!this.table.hidden));
      button.textContent = this.table.hidden ? "Show as table" : "Hide table";
      this.fillTable();
    });
    this.figure.querySelector('[data-save="csv"]').addEventListener("click", () => {
      const heads = ["run", "letter", "step", "epsilon", "seconds", NAMES[this.name]];
      const ids = new Map(this.view.runs.map(({letter, id}) => [letter, id]));
      save(`compare-${this.name}.csv`, csv(heads, rows(this.view.runs, this.name).map(([letter, ...numbers]) => [ids.get(letter), letter, ...numbers])));
    });
    for (const format of ["svg", "png"]) {
      this.figure.querySelector(`[data-save="${format}"]`).addEventListener("click", () => this.savePicture(format));
    }
  }

  /** The title of a saved picture lists the runs. @param {"svg" | "png"} format */
  savePicture(format) {
    const {runs, axis} = this.view;
    const title = this.figure.querySelector("[data-conclusion]").textContent;
    const outside = this.name === "clipped" ? "; not private" : "";
    const note = [`${this.figure.querySelector(".chart-sub").textContent}, against ${nameOf(runs, axis)}${outside}`, ...runs.map(({letter, short}) => `${letter}: ${short}`)];
    return savePicture(this.chart.svg, {title, note}, `compare-${this.name}`, format);
  }

  /** @param {{runs: object[], axis: string, lit: string, cursor: number | null}} view */
  show(view) {
    this.view = view;
    this.lines = view.runs.map((run) => ({...run, points: pointsOf(run, this.name, view.axis)}));
    this.draw();
    const words = conclusion(this.lines, this.name);
    const heading = this.figure.querySelector("[data-conclusion]");
    if (heading.textContent !== words) heading.textContent = words;
    this.chart.svg.setAttribute("aria-label", `${words}. Against ${nameOf(view.runs, view.axis)}.`);
    this.sayAbsent();
    this.fillTable();
  }

  draw() {
    if (!this.view || this.chart.width === 0) return;
    const {axis, lit, cursor} = this.view;
    const axes = axesOf(this.lines, this.name, axis);
    const {width, height} = this.chart;
    this.chart.frame(axes.x.range, axes.y.range, [MARGIN.left, MARGIN.top, width - MARGIN.right, height - MARGIN.bottom], {logX: axes.x.log});
    this.axes = axes;
    const at = cursor === null ? null : Math.min(Math.max(cursor, axes.x.range[0]), axes.x.range[1]);
    this.chart.show(marks({lines: this.lines, chart: this.name, axis, lit, cursor: at}, {x: this.chart.x, y: this.chart.y, axes, width, height}));
  }

  hover(event, onHover) {
    if (!this.axes) return;
    const [x, y] = this.chart.pixel(event);
    const cursor = Math.min(Math.max(this.chart.x.back(x), this.axes.x.range[0]), this.axes.x.range[1]);
    onHover(nearest(this.lines, cursor, y, (value) => this.chart.y(this.axes.y.to(value))), cursor);
  }

  /** List the runs that the horizontal axis cannot show. */
  sayAbsent() {
    const place = this.figure.querySelector("[data-absent]");
    if (!place) return;
    const absent = this.lines.filter(({points, evaluations}) => points.length === 0 && evaluations.length > 0).map(({letter}) => letter);
    place.textContent = absent.length ? `${absent.join(", ")}: without privacy there is no ε; choose step or seconds.` : "";
  }

  fillTable() {
    if (this.table.hidden || !this.view) return;
    const {unit, digits} = CHARTS[this.name];
    showTable(this.table, {
      caption: this.figure.querySelector(".chart-sub").textContent,
      heads: ["Run", "Step", "ε spent", "Seconds", unit],
      words: [0],
      rows: rows(this.view.runs, this.name).map(([letter, step, epsilon, seconds, value]) => [letter, step, decimalsUp(epsilon), seconds.toFixed(2), value.toFixed(digits + 1)]),
    });
  }
}
