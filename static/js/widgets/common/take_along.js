/** Below a widget: a link to its present state, and its picture for the clipboard. */

import {rastered, standalone} from "../../lib/picture.js";
import {follow} from "../../lib/svg.js";

const DIGITS = 4; // of a number in a link

/** @typedef {{values?: number[], by_place?: boolean, low?: number, high?: number, doublings?: boolean}} Rule */

/**
 * Value of a control in an address, given the number that its input contains.
 * @param {number} position @param {Rule} rule @returns {number}
 */
export function valueAt(position, {values, by_place, low, high, doublings}) {
  if (values) return by_place ? values[position] : position;
  const value = doublings ? 2 ** position : position;
  return Math.min(Math.max(Number(value.toPrecision(DIGITS)), low), high);
}

/** Query of an address, without controls whose state is unknown. @param {Record<string, number[]>} positions @param {Record<string, Rule[]>} rules */
export function queryOf(positions, rules) {
  return Object.entries(rules)
    .filter(([control]) => positions[control]?.length === rules[control].length)
    .map(([control, each]) => `${control}=${each.map((rule, i) => valueAt(positions[control][i], rule)).join(",")}`)
    .join("&");
}

/** Numbers in the inputs or at the handle of each control. @param {HTMLElement} element the widget */
function positionsOf(element, controls) {
  const read = (control) => {
    const inputs = [...element.querySelectorAll(`[data-control="${control}"] :is(input, select)`)];
    const input = inputs.find(({type, checked}) => type !== "radio" || checked);
    const handle = element.querySelector(`[data-grip="${control}"]`);
    return input ? [Number(input.value)] : handle?.dataset.at?.split(",").map(Number);
  };
  return Object.fromEntries(controls.map((control) => [control, read(control)]));
}

/** Connect the buttons of a widget. @param {HTMLElement} element */
export function offer(element) {
  const row = element.querySelector("[data-take]");
  if (!row) return;
  const {address, rules} = JSON.parse(row.dataset.take);
  const said = row.querySelector("[role=status]");
  const link = () => {
    const query = queryOf(positionsOf(element, Object.keys(rules)), rules);
    return location.origin + address + (query && `?${query}`);
  };
  const tell = (words) => {
    said.textContent = "";
    requestAnimationFrame(() => (said.textContent = words));
  };
  row.querySelector("[data-take-link]").addEventListener("click", async () => {
    const text = link();
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    tell(isCopied ? "Link copied." : text);
  });
  row.querySelector("[data-take-picture]").addEventListener("click", async () => {
    const picture = pictureOf(element, location.origin + address);
    const isCopied = await copied(picture);
    if (!isCopied) follow(`${element.id}.png`, await picture);
    tell(isCopied ? "Picture copied." : "Picture saved.");
  });
}

/** The largest drawing of the widget as PNG, with title and source. @returns {Promise<string>} a data URL */
async function pictureOf(element, address) {
  const area = (svg) => svg.getBoundingClientRect().width * svg.getBoundingClientRect().height;
  const drawings = [...element.querySelectorAll("[data-live] svg")].filter((svg) => svg.viewBox.baseVal?.width);
  const largest = drawings.reduce((best, svg) => (area(svg) > area(best) ? svg : best));
  const title = element.querySelector('[data-part="title"]').textContent;
  const sub = element.querySelector('[data-part="sub"]').textContent;
  const {text, width, height} = standalone(largest, {title, note: [sub, address]});
  return rastered(text, width, height);
}

/** Put a picture into the clipboard; its content may follow, since browsers allow the call only within the click. */
async function copied(picture) {
  try {
    const blob = picture.then((url) => new Blob([Uint8Array.from(atob(url.split(",")[1]), (letter) => letter.charCodeAt(0))], {type: "image/png"}));
    await navigator.clipboard.write([new ClipboardItem({"image/png": blob})]);
    return true;
  } catch {
    return false; // no clipboard in this browser or on this page
  }
}
