/** Chart of several runs on a page, with its heading, table and saved files. */

import {absent, conclusion, frame, marks, nearest, rows} from "./runs_chart.js";
import {linesOf, nameOf} from "./runs_axes.js";
import {Figure} from "./figure.js";
import {decimals, decimalsUp} from "../lib/format.js";

const WORDS = [0]; // index of the table's column of text

export class RunsFigure extends Figure {
  /**
   * @param {HTMLElement} figure @param {import("./runs_chart.js").RunsChart} chart from the server
   * @param {{file: string, title?: () => string, note?: () => string[], onHover?: (key: string | null, x: number | null) => void}} options
   *   `title`: heading instead of the chart's words; `note`: lines below a saved picture
   */
  constructor(figure, chart, {file, title = null, note = () => [], onHover = null}) {
    super(figure, {file, height: () => chart.height, draw: (svg) => this.marksOn(svg)});
    Object.assign(this, {described: chart, title, note, view: null, frame: null});
    [this.absent, this.sub] = [figure.querySelector("[data-absent]"), figure.querySelector(".chart-sub")];
    if (!onHover) return;
    this.plot.addEventListener("pointermove", (event) => this.hover(event, onHover));
    this.plot.addEventListener("pointerleave", () => onHover(null, null));
  }

  /** Draw runs. @param {Omit<Parameters<typeof frame>[0], "chart">} view */
  update(view) {
    const {described: chart} = this;
    this.view = {...view, chart};
    const lines = linesOf(view.runs, chart, view.axis);
    const axis = nameOf(view.axis, lines);
    const words = this.title ? this.title() : conclusion(lines, chart);
    const outside = chart.is_private ? "" : "; not private";
    this.show({conclusion: words, note: [`${this.sub.textContent}, against ${axis}${outside}`, ...this.note()], table: () => this.rows()});
    this.chart.svg.setAttribute("aria-label", `${words}. Against ${axis}.`);
    if (this.absent) this.absent.textContent = absent(lines, chart);
  }

  marksOn(svg) {
    this.frame = frame(this.view, svg);
    return marks(this.frame);
  }

  hover(event, onHover) {
    if (!this.frame) return;
    const {lines, axes, x, y} = this.frame;
    const [left, top] = this.chart.pixel(event);
    const cursor = Math.min(Math.max(x.back(left), axes.x.range[0]), axes.x.range[1]);
    onHover(nearest(lines, cursor, top, (value) => y(axes.y.to(value))), cursor);
  }

  /** Numbers of the chart as text and as values, one row per point. */
  rows() {
    const {runs, chart} = this.view;
    const ids = new Map(runs.map(({label, id}) => [label, id]));
    const all = rows(runs, chart);
    return {
      caption: this.sub.textContent,
      heads: ["Run", "Step", "ε spent", "Seconds", chart.unit],
      words: WORDS,
      rows: all.map(([label, step, epsilon, seconds, value]) => [label, step, decimalsUp(epsilon), decimals(seconds), decimals(value, chart.digits + 1)]),
      names: ["run", "letter", "step", "epsilon", "seconds", chart.column],
      values: all.map(([label, ...numbers]) => [ids.get(label), label, ...numbers]),
    };
  }
}
