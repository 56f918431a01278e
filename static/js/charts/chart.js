/** Plotly chart with its heading, table and buttons, and the loading of the library. */

import {unbroken} from "../lib/format.js";
import {tokens} from "../lib/page.js";
import {pageAddress, wrapped} from "../lib/picture.js";
import {csv, follow, save, showTable} from "../lib/svg.js";

const IDLE_MS = 4000; // longest delay after the page's load event

/** @type {Promise<any> | null} */
let loading = null;

/** The loaded library; charts then draw without delay. */
let library = null;

/** Loads the library once. */
function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.addEventListener("load", () => {
      library = globalThis.Plotly;
      resolve(library);
    });
    script.addEventListener("error", () => {
      loading = null; // so that the next chart tries again
      reject(new Error("the chart library did not load"));
    });
    script.src = document.getElementById("plotly").dataset.src;
    document.head.append(script);
  });
  return loading;
}

/** Loads the library when the browser is idle: until then, the server's drawing is visible. */
async function plotlyWhenIdle() {
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done, {once: true}));
  await new Promise((done) => (globalThis.requestIdleCallback ? requestIdleCallback(done, {timeout: IDLE_MS}) : setTimeout(done, 200)));
  return plotly();
}

/** Labelled buttons of the page replace Plotly's toolbar. */
export const CONFIG = {displayModeBar: false, displaylogo: false, doubleClick: false, showTips: false};

const PNG_SCALE = 2;
const TITLE = {size: 16, line: 21, letter: 9.2}; // px; `letter`: approximate width
const NOTE = {size: 12, line: 17, letter: 6.8};
const PAD = 12; // px between a saved picture's texts and its edges

/**
 * @typedef {import("../lib/svg.js").Rows & {names: string[], values: (number | null)[][]}} Table
 * `rows` as text, and `values` as numbers with column names for CSV
 */

/**
 * @typedef {object} Drawing content of a chart
 * @property {(color: (token: string) => string) => {traces: object[], layout: object}} figure
 * @property {(color: (token: string) => string) => {traces: object[], layout: object}} [print]
 * figure of a saved picture, with the texts and scales that the page shows outside of the chart
 * @property {string} conclusion heading
 * @property {() => Table} table the numbers
 * @property {string} note below a saved picture
 * @property {string} [address] of the run, below a saved picture; by default, the address of the page
 * @property {string} file name of saved files, without extension
 */

export class Chart {
  /** @param {HTMLElement} figure the figure element @param {string} name used in names of saved files */
  constructor(figure, name) {
    this.name = name;
    this.plot = figure.querySelector("[data-plot]");
    this.heading = figure.querySelector("[data-conclusion]");
    this.table = figure.querySelector("[data-table]");
    /** Server's description of a chart of values by step. @type {import("./series.js").Described | null} */
    this.described = JSON.parse(figure.dataset.described ?? "null");
    this.standing = figure.querySelector("[data-standing]");
    /** @type {{width: number, height: number} | null} */
    this.box = null;
    new ResizeObserver(() => (this.box = null)).observe(this.plot);
    /** @type {Drawing | null} */
    this.drawing = null;
    this.wire(figure);
  }

  /** Size of the element, read again only when it changes: each reading makes the browser compute the layout. */
  get size() {
    this.box ??= {width: this.plot.clientWidth, height: this.plot.clientHeight};
    return this.box;
  }

  /** True if the server's drawing equals the figure that the script would draw. */
  get stands() {
    if (!this.standing) return false;
    const {traces, layout} = this.drawing.figure((token) => token);
    const picture = JSON.stringify([traces, layout.shapes, layout.xaxis.range]);
    this.first ??= picture;
    return picture === this.first;
  }

  wire(figure) {
    const button = figure.querySelector("[data-show-table]");
    button.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      button.setAttribute("aria-expanded", String(!this.table.hidden));
      button.textContent = this.table.hidden ? "Show as table" : "Hide table";
      this.fillTable();
    });
    figure.querySelector('[data-save="csv"]').addEventListener("click", () => this.saveCsv());
    for (const format of ["svg", "png"]) {
      figure.querySelector(`[data-save="${format}"]`).addEventListener("click", () => this.savePicture(format));
    }
  }

  /** Show a drawing, at once if the library is loaded; waits while the element has no size. @param {Drawing} drawing */
  async update(drawing) {
    this.drawing = drawing;
    this.updateHeading(drawing);
    this.fillTable();
    const {width, height} = this.size;
    if (width === 0 || height === 0) return;
    if (!library || this.standing) await (this.stands ? plotlyWhenIdle() : plotly());
    if (drawing !== this.drawing) return; // a newer drawing arrived while the library loaded
    const {traces, layout} = drawing.figure(tokens());
    this.standing?.remove();
    this.standing = null;
    const drawn = JSON.stringify([traces, layout]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const painted = library.react(this.plot, traces, layout, CONFIG);
    for (const svg of this.plot.querySelectorAll(".main-svg")) svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`); // paper scales the drawing
    await painted;
  }

  updateHeading({conclusion}) {
    const words = unbroken(conclusion);
    if (words === this.heading.textContent) return;
    this.heading.textContent = words;
    this.plot.setAttribute("aria-label", conclusion);
  }

  fillTable() {
    if (this.table.hidden || !this.drawing) return;
    showTable(this.table, this.drawing.table());
  }

  saveCsv() {
    if (!this.drawing) return;
    const {file, table} = this.drawing;
    const {names, values} = table();
    save(`${file}-${this.name}.csv`, csv(names, values));
  }

  /** @param {"svg" | "png"} format */
  async savePicture(format) {
    if (!this.drawing) return;
    const Plotly = await plotly();
    const color = tokens();
    const {print, figure, conclusion, note, address = pageAddress(), file} = this.drawing;
    const {traces, layout} = (print ?? figure)(color);
    const framed = withWords(layout, {conclusion, notes: [note, address], color});
    const {width, height} = framed;
    const url = await Plotly.toImage({data: traces, layout: framed}, {format, scale: format === "png" ? PNG_SCALE : 1, width, height});
    follow(`${file}-${this.name}.${format}`, url);
  }
}

/** Pure: layout of a saved picture, with heading, notes and background; long texts are wrapped. */
export function withWords(layout, {conclusion, notes, color}) {
  const {t, b} = layout.margin;
  const room = layout.width - 2 * PAD;
  const title = wrapped(conclusion, room / TITLE.letter);
  const foot = notes.flatMap((note) => wrapped(note, room / NOTE.letter));
  const [above, below] = [title.length * TITLE.line + 2 * PAD, foot.length * NOTE.line + 2 * PAD];
  const word = {showarrow: false, xref: "paper", x: 0, xanchor: "left", align: "left", yref: "paper", xshift: PAD - layout.margin.l};
  return {
    ...layout,
    height: layout.height + above + below,
    margin: {...layout.margin, t: t + above, b: b + below},
    paper_bgcolor: color("--surface"),
    annotations: [
      ...layout.annotations,
      {...word, y: 1, yanchor: "bottom", yshift: t + PAD, text: title.join("<br>"), font: {size: TITLE.size, weight: 600, color: color("--ink")}},
      {...word, y: 0, yanchor: "top", yshift: -b - PAD, text: foot.join("<br>"), font: {size: NOTE.size, color: color("--ink-2")}},
    ],
  };
}
