/** Starts the widgets of a page, their tabs and notes. After an error, a widget shows its static drawing again, with a one-line message. */

import {NARROW, reveal, tabs} from "./tabs.js";

import {offer} from "./take_along.js";

const FAILED = "The moving version does not work in this browser; the picture and its table show the same numbers.";

/** @typedef {{mount: (element: HTMLElement, data: any) => void}} Script */

const part = (element, name) => element.querySelector(name);

/** @param {HTMLElement} element the figure @param {(address: string) => Promise<Script>} load */
export async function start(element, load = (address) => import(address)) {
  const title = part(element, '[data-part="title"]');
  const first = title.textContent;
  const fail = (error) => {
    console.error(error);
    part(element, "[data-live]").hidden = true;
    part(element, "[data-still]").hidden = false;
    part(element, "[data-note]").textContent = FAILED;
    title.textContent = first;
    element.dataset.state = "failed";
  };
  try {
    const data = JSON.parse(part(element, "[data-widget-data]").textContent);
    const {mount} = await load(element.dataset.widget);
    part(element, "[data-live]").hidden = false;
    element.querySelectorAll("[data-tabs]").forEach(tabs);
    placeSubtitle(element);
    mount(element, data);
    begin(element, JSON.parse(element.dataset.start ?? "{}"));
    if (element.dataset.guesses) element.dispatchEvent(new CustomEvent("guessed", {detail: JSON.parse(element.dataset.guesses)}));
    part(element, "[data-still]").hidden = true;
    offer(element);
    element.dataset.state = "moves";
    element.addEventListener("scene", ({detail}) => begin(element, detail));
    if (element.dataset.scene) begin(element, JSON.parse(element.dataset.scene));
  } catch (error) {
    fail(error);
    return;
  }
  globalThis.addEventListener?.("error", ({error}) => {
    if (comesFrom(element.dataset.widget, error)) fail(error);
  });
}

/** Move the subtitle into the notes on narrow pages. @param {HTMLElement} element */
function placeSubtitle(element) {
  const [notes, subtitle] = ["[data-about]", '[data-part="sub"]'].map((name) => part(element, name));
  const title = part(element, ".chart-head > div");
  const narrow = globalThis.matchMedia?.(NARROW);
  if (!notes || !narrow) return;
  const place = () => {
    if (narrow.matches) notes.querySelector("summary").after(subtitle);
    else title.append(subtitle);
  };
  narrow.addEventListener("change", place);
  place();
}

/**
 * Set controls to the positions in the page's address; the widget's script receives the same events as from a
 * visitor.
 * @param {HTMLElement} element @param {Record<string, number[]>} positions of the inputs or the handle, by control
 */
export function begin(element, positions) {
  for (const [control, position] of Object.entries(positions)) {
    const inputs = [...element.querySelectorAll(`[data-control="${control}"] :is(input, select)`)];
    if (inputs.length) reveal(inputs[0]);
    for (const input of inputs) {
      const isChoice = input.type === "radio";
      if (isChoice && Number(input.value) !== position[0]) continue;
      if (isChoice) input.checked = true;
      else input.value = String(position[0]);
      input.dispatchEvent(new Event(isChoice || input.localName === "select" ? "change" : "input", {bubbles: true}));
    }
    if (inputs.length) continue;
    const grip = part(element, `[data-grip="${control}"]`);
    reveal(grip);
    grip.dispatchEvent(new CustomEvent("start", {detail: position}));
  }
}

/** Pure: true if a script is in the stack of an error. */
export function comesFrom(address, error) {
  return String(error?.stack).includes(`${address}:`);
}

if (globalThis.document) document.querySelectorAll("[data-widget]").forEach((element) => start(element));
