/** Helpers for page scripts: the data and marked elements of a page, its colours, and the scheduling of charts. */

/** @param {string} name of the root's attribute: `data-name` */
export function openPage(name) {
  const page = document.querySelector(`[data-${name}]`);
  return {
    page,
    data: JSON.parse(document.getElementById("page-data").textContent),
    part: (part) => page.querySelector(`[data-${part}]`),
    parts: (part) => page.querySelectorAll(`[data-${part}]`),
  };
}

/**
 * Set `aria-current` on the current links. @param {Iterable<Element>} links @param {(link: Element) => boolean}
 * isCurrent
 */
export function markCurrent(links, isCurrent) {
  for (const link of links) {
    if (isCurrent(link)) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** Scroll to the first of two elements unless both are visible. @param {Element} first @param {Element} last */
export function bringIntoView(first, last) {
  const {top} = first.getBoundingClientRect();
  if (top < 0 || last.getBoundingClientRect().bottom > innerHeight) first.scrollIntoView();
}

/** Row of a table body: header cell, then numbers. */
export function tableRow(head, numbers) {
  const line = document.createElement("tr");
  const first = Object.assign(document.createElement("th"), {scope: "row"});
  first.append(...head);
  line.append(first, ...numbers.map((text) => Object.assign(document.createElement("td"), {className: "n", textContent: text})));
  return line;
}

/**
 * @param {string} name of the element
 * @param {Record<string, string | number>} [attributes] null and undefined are skipped, "" is set
 * @param {...(Node | string | number)} content
 */
export function element(name, attributes = {}, ...content) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, String(value));
  }
  node.append(...content.map((part) => (part instanceof Node ? part : String(part))));
  return node;
}

/** Values of the root's design tokens, by theme: each reading makes the browser compute all styles. @type {Map<string, Map<string, string>>} */
const known = new Map();

/** Returns a function that reads design tokens: `color("--series-private")`. */
export function tokens(element = document.documentElement) {
  const style = getComputedStyle(element);
  if (element !== document.documentElement) return (name) => style.getPropertyValue(name).trim();
  const look = `${element.dataset.theme} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  if (!known.has(look)) known.set(look, new Map());
  const values = known.get(look);
  return (name) => {
    const value = values.get(name) || style.getPropertyValue(name).trim();
    values.set(name, value);
    return value;
  };
}

/** Call `draw` while the page has the light theme, as on paper. @param {() => void} draw */
export function inLight(draw) {
  const {dataset} = document.documentElement;
  const {theme} = dataset;
  dataset.theme = "light";
  draw();
  if (theme) dataset.theme = theme;
  else delete dataset.theme;
}

/** Red, green and blue of a computed colour such as "rgb(26, 32, 38)". */
export function rgb(computed) {
  return computed.match(/\d+/g).slice(0, 3).map(Number);
}

/** Calls back when the theme changes or an element changes its size. */
export function onLookChange(elements, callback) {
  const root = document.documentElement;
  new MutationObserver(callback).observe(root, {attributeFilter: ["data-theme"]});
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
  const sizes = new ResizeObserver(callback);
  for (const element of elements) sizes.observe(element);
}

const PAUSE_MS = 150;
const STILL_PAUSE_MS = 1000;
const SLOW_MS = 50;

export class Painter {
  constructor() {
    /** @type {Set<{paint: () => unknown}>} charts requested since the round began */
    this.asked = new Set();
    /** @type {{paint: () => unknown}[]} charts still to paint in this round */
    this.round = [];
    this.started = 0;
    this.pause = 0;
    this.pending = false;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    document.addEventListener("visibilitychange", () => this.wake());
  }

  /** Schedule `chart.paint()`; repeated requests paint once. */
  request(chart, {now = false} = {}) {
    this.asked.add(chart);
    if (now) this.pause = 0;
    this.wake();
  }

  wake() {
    if (this.pending || document.hidden || this.asked.size + this.round.length === 0) return;
    this.pending = true;
    const due = this.round.length > 0 ? 0 : this.started + this.pause;
    setTimeout(() => requestAnimationFrame(() => this.frame()), Math.max(0, due - performance.now()));
  }

  /** Paints everything that was requested at once, without a pause. */
  flush() {
    const charts = new Set([...this.round, ...this.asked]);
    this.round = [];
    this.asked.clear();
    for (const chart of charts) chart.paint();
  }

  /** Paints one chart; a pause of twice its time, with style and layout, leaves most of the main thread free. */
  frame() {
    if (this.round.length === 0) this.begin();
    const chart = this.round.shift();
    const start = performance.now();
    chart?.paint();
    setTimeout(() => { // after the browser has drawn the frame
      const spent = performance.now() - start;
      if (spent > SLOW_MS) this.pause += 2 * spent;
      this.pending = false;
      this.wake();
    });
  }

  begin() {
    this.round = [...this.asked];
    this.asked.clear();
    this.started = performance.now();
    this.pause = this.still.matches ? STILL_PAUSE_MS : PAUSE_MS;
  }
}

/** Copy a text from the address bar, and show the result in `line`. */
export async function copyText(text, line) {
  try {
    await navigator.clipboard.writeText(text);
    line.textContent = "Copied";
  } catch {
    line.textContent = "Copy it from the address bar";
  }
}
