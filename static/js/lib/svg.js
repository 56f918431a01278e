/** SVG drawings, their tables, and the files of both. */

const NAMESPACE = "http://www.w3.org/2000/svg";

/** @typedef {{name: string, attributes: Record<string, string | number>, content?: string | Mark[]}} Mark */
/** @typedef {[number, number]} Point */

export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** Scale from data to pixels; `back` converts pixels to data. */
export function scale([low, high], [start, end], {log = false} = {}) {
  const bend = log ? Math.log : (value) => value;
  const stretch = (end - start) / (bend(high) - bend(low));
  const to = (value) => start + (bend(value) - bend(low)) * stretch;
  to.back = (pixel) => {
    const bent = bend(low) + (pixel - start) / stretch;
    return log ? Math.exp(bent) : bent;
  };
  return to;
}

const tenth = (value) => Math.round(value * 10) / 10;
const steps = (points) => `M${points.map(([x, y]) => `${tenth(x)} ${tenth(y)}`).join("L")}`;

/** @returns {Mark} */
export const line = (points, css) => ({name: "path", attributes: {class: `line ${css}`, d: points.length ? steps(points) : ""}});
/** @returns {Mark} */
export const area = (points, css) => ({name: "path", attributes: {class: css, d: points.length ? `${steps(points)}Z` : ""}});
/** @returns {Mark} */
export const disc = ([x, y], radius, css) => ({name: "circle", attributes: {class: css, cx: tenth(x), cy: tenth(y), r: radius}});
/** @returns {Mark} */
export const rule = (from, to, css = "grid") => ({name: "path", attributes: {class: css, d: steps([from, to])}});
/** @returns {Mark} */
export const box = ([x, y], width, height, css) => ({name: "rect", attributes: {class: css, x: tenth(x), y: tenth(y), width: tenth(Math.max(0, width)), height: tenth(Math.max(0, height))}});
/** @returns {Mark} */
export const text = ([x, y], words, css = "", anchor = "start") => ({
  name: "text", attributes: {class: css, x: tenth(x), y: tenth(y), "text-anchor": anchor}, content: String(words),
});
/** Square on its corner: the mark of a guess. @returns {Mark} */
export const diamond = ([x, y], radius, css) => area([[x, y - radius], [x + radius, y], [x, y + radius], [x - radius, y]], css);

/** Many circles as one path, so that hundreds of points need one element. @returns {Mark} */
export function circles(points, radius, css) {
  const arcs = `a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`;
  return {name: "path", attributes: {class: css, d: points.map(([x, y]) => `M${tenth(x - radius)} ${tenth(y)}${arcs}`).join("")}};
}

/** Arrow; empty if shorter than one pixel. @returns {Mark[]} */
export function arrow([x0, y0], [x1, y1], stroke, fill, head = 8) {
  const length = Math.hypot(x1 - x0, y1 - y0);
  if (!(length >= 1)) return [];
  const [u, v] = [(x1 - x0) / length, (y1 - y0) / length];
  const size = Math.min(head, length);
  const half = 0.42 * size;
  const [x, y] = [x1 - u * size, y1 - v * size];
  return [line([[x0, y0], [x, y]], stroke), area([[x1, y1], [x - v * half, y + u * half], [x + v * half, y - u * half]], fill)];
}

/**
 * Pure: heights of labels without overlaps: in the same order, at least `gap` px from each other, below `top`, and
 * above `bottom` if there is room.
 */
export function fanned(heights, gap = 16, top = 0, bottom = Infinity) {
  const order = heights.map((_, i) => i).sort((i, j) => heights[i] - heights[j]);
  const placed = [...heights];
  let last = top - gap;
  for (const i of order) {
    placed[i] = Math.max(heights[i], last + gap);
    last = placed[i];
  }
  let limit = Math.max(bottom, top + gap * (placed.length - 1));
  for (const i of order.reverse()) {
    placed[i] = Math.min(placed[i], limit);
    limit = placed[i] - gap;
  }
  return placed;
}

let clips = 0;

/** Marks clipped to a rectangle. @returns {Mark[]} */
export function clipped([left, top, right, bottom], marks) {
  const id = `clip-${++clips}`;
  return [
    {name: "clipPath", attributes: {id}, content: [box([left, top], right - left, bottom - top, "")]},
    {name: "g", attributes: {"clip-path": `url(#${id})`}, content: marks},
  ];
}

/** Creates the element of a mark. @param {Mark} mark @returns {SVGElement} */
export function make({name, attributes, content = ""}) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== "") element.setAttribute(key, String(value));
  if (typeof content === "string") element.textContent = content;
  else element.append(...content.map(make));
  return element;
}

/** Drawing inside an element; `draw` is called for the first width and whenever the width changes. */
export class Chart {
  /**
   * @param {Element} place parent of the drawing @param {{height: number | ((width: number) => number), label: string, role?: string, draw: () => void}} options
   */
  constructor(place, {height, label, role = "img", draw}) {
    this.height = typeof height === "number" ? height : 0;
    this.width = 0;
    this.svg = make({name: "svg", attributes: {class: "plot", role, "aria-label": label}});
    this.marks = make({name: "g", attributes: {}});
    this.grips = make({name: "g", attributes: {}});
    this.svg.append(this.marks, this.grips);
    place.append(this.svg);
    const measure = () => {
      const width = Math.round(place.clientWidth);
      if (width === 0) return 0;
      this.height = typeof height === "number" ? height : height(width);
      for (const [key, value] of Object.entries({viewBox: `0 0 ${width} ${this.height}`, width, height: this.height})) this.svg.setAttribute(key, String(value));
      return width;
    };
    new ResizeObserver(() => {
      const width = measure();
      if (width === this.width || width === 0) return;
      this.width = width;
      draw();
    }).observe(place);
    measure(); // the drawing has its room before its first marks
  }

  /** Set the scales: map data ranges to the pixels between left, top, right and bottom. */
  frame(xRange, yRange, [left, top, right, bottom], {logX = false} = {}) {
    this.x = scale(xRange, [left, right], {log: logX});
    this.y = scale(yRange, [bottom, top]);
    return this;
  }

  /** Pointer position in data units. @returns {Point} */
  point(event) {
    const place = this.svg.getBoundingClientRect();
    const zoom = this.width / place.width;
    return [this.x.back((event.clientX - place.left) * zoom), this.y.back((event.clientY - place.top) * zoom)];
  }

  /** Pointer position in pixels of the drawing. @returns {Point} */
  pixel(event) {
    const place = this.svg.getBoundingClientRect();
    const zoom = this.width / place.width;
    return [(event.clientX - place.left) * zoom, (event.clientY - place.top) * zoom];
  }

  /** Set the marks, unless the chart has no width yet. @param {Mark[]} marks in painting order */
  show(marks) {
    this.marks.replaceChildren(...marks.map(make));
  }
}

/**
 * @typedef {object} Rows
 * @property {string} caption
 * @property {string[]} heads
 * @property {(string | number | null)[][]} rows as printed
 * @property {number[]} [words] indices of text columns, which are left-aligned
 */

const MOST_ROWS = 1000;

/** Fill an element with a table. @param {HTMLElement} element @param {Rows} data */
export function showTable(element, {caption, heads, rows, words = []}) {
  const table = document.createElement("table");
  table.className = "data";
  table.createCaption().textContent = caption;
  const head = table.createTHead().insertRow();
  heads.forEach((text, i) => head.append(headCell(text, sideOf(i, words))));
  const body = table.createTBody();
  for (const row of rows.slice(0, MOST_ROWS)) {
    const line = body.insertRow();
    for (const [i, value] of row.entries()) {
      const cell = line.insertCell();
      cell.className = sideOf(i, words);
      cell.textContent = value === null ? "–" : String(value);
    }
  }
  element.replaceChildren(table);
}

/** CSS class of a column: numbers are right-aligned. */
function sideOf(column, words) {
  return words.includes(column) ? "" : "n";
}

function headCell(text, side) {
  const cell = document.createElement("th");
  cell.scope = "col";
  cell.className = side;
  cell.textContent = text;
  return cell;
}

/** RFC 4180 text; `heads` are the column names. @param {(string | number | null)[][]} rows */
export function csv(heads, rows) {
  return [heads, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Save a text as a file of the visitor. */
export function save(name, text, type = "text/csv") {
  const url = URL.createObjectURL(new Blob([text], {type}));
  follow(name, url);
  URL.revokeObjectURL(url);
}

/** Download the content of an address. */
export function follow(name, url) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
