/** A page and its script: the data sent with it, its marked parts, its colours, and when it is painted. */

/** @param {string} name of the root: `data-name` */
export function openPage(name) {
  const page = document.querySelector(`[data-${name}]`);
  return {
    page,
    data: JSON.parse(document.getElementById("page-data").textContent),
    part: (part) => page.querySelector(`[data-${part}]`),
    parts: (part) => page.querySelectorAll(`[data-${part}]`),
  };
}

/** Mark the current ones of some links. @param {Iterable<Element>} links @param {(link: Element) => boolean} isCurrent */
export function markCurrent(links, isCurrent) {
  for (const link of links) {
    if (isCurrent(link)) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** Scroll to the first of two parts, unless both are in view already. @param {Element} first @param {Element} last */
export function bringIntoView(first, last) {
  const {top} = first.getBoundingClientRect();
  if (top < 0 || last.getBoundingClientRect().bottom > innerHeight) first.scrollIntoView();
}

/** A row of a table's body: its head, then its numbers. */
export function tableRow(head, numbers) {
  const line = document.createElement("tr");
  const first = Object.assign(document.createElement("th"), {scope: "row"});
  first.append(...head);
  line.append(first, ...numbers.map((text) => Object.assign(document.createElement("td"), {className: "n", textContent: text})));
  return line;
}

/**
 * @param {string} name of the element
 * @param {Record<string, string | number>} [attributes] "" is set, null and undefined are not
 * @param {...(Node | string | number)} content
 */
export function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...content.map((part) => (part instanceof Node ? part : String(part))));
  return made;
}

/** A reader of the tokens as they are now: `color("--series-private")`. */
export function tokens(element = document.documentElement) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}

/** Red, green and blue of a colour as `getComputedStyle` gives it, "rgb(26, 32, 38)". */
export function rgb(computed) {
  return computed.match(/\d+/g).slice(0, 3).map(Number);
}

/** Call back when light and dark are switched, and when one of the elements changes its size. */
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
    /** @type {Set<{paint: () => unknown}>} charts that asked since the round began */
    this.asked = new Set();
    /** @type {{paint: () => unknown}[]} what is left of this round */
    this.round = [];
    this.started = 0;
    this.pause = 0;
    this.pending = false;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    document.addEventListener("visibilitychange", () => this.wake());
  }

  /** Have `chart.paint()` called soon; asking twice paints once. */
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

  frame() {
    this.pending = false;
    if (this.round.length === 0) this.begin();
    const chart = this.round.shift();
    const start = performance.now();
    chart?.paint();
    const spent = performance.now() - start;
    if (spent > SLOW_MS) this.pause += 2 * spent;
    this.wake();
  }

  begin() {
    this.round = [...this.asked];
    this.asked.clear();
    this.started = performance.now();
    this.pause = this.still.matches ? STILL_PAUSE_MS : PAUSE_MS;
  }
}

/** Copy a text that the address bar shows, and say in `line` how it went. */
export async function copyText(text, line) {
  try {
    await navigator.clipboard.writeText(text);
    line.textContent = "Copied";
  } catch {
    line.textContent = "Copy it from the address bar";
  }
}
