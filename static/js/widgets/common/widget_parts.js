/** Helpers for the scripts of widgets. */

import {unbroken} from "../../lib/format.js";

/** Element with data-part="name"; raises an error if the template has no such part. */
export function part(element, name) {
  const match = element.querySelector(`[data-part="${name}"]`);
  if (!match) throw new Error(`the widget ${element.id} has no part ${name}`);
  return match;
}

/**
 * Set the text of a part; `colours` lists passages and the colour of the quantity they state, in reading order.
 * @param {HTMLElement} element @param {string} name @param {string} words @param {[string, string][]} [colours]
 */
export function write(element, name, words, colours = []) {
  const place = part(element, name);
  if (!colours.length) {
    place.textContent = unbroken(words);
    return;
  }
  place.replaceChildren(...spans(words, colours).map(([passage, colour]) => {
    if (!colour) return unbroken(passage);
    const span = document.createElement("span");
    span.className = `said-${colour}`;
    span.textContent = unbroken(passage);
    return span;
  }));
}

/** Pure: a text cut into [passage, colour or ""]; passages that do not occur are left out. */
export function spans(words, colours) {
  const cut = [];
  let rest = words;
  for (const [passage, colour] of colours) {
    const at = rest.indexOf(passage);
    if (at < 0 || !passage) continue;
    cut.push([rest.slice(0, at), ""], [passage, colour]);
    rest = rest.slice(at + passage.length);
  }
  return [...cut, [rest, ""]].filter(([passage]) => passage);
}

const STILL_MS = 700;

/** Returns a function that announces text to screen readers after a pause; the initial state is not announced. */
export function speaker(element) {
  const output = part(element, "spoken");
  let waiting = 0;
  let last = null;
  return (words) => {
    clearTimeout(waiting);
    if (last === null) last = words;
    waiting = setTimeout(() => {
      if (words !== last) output.textContent = words;
      last = words;
    }, STILL_MS);
  };
}

/** Returns a function that calls `draw` in the next frame, once for all calls before it. */
export function oncePerFrame(draw) {
  let isScheduled = false;
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      draw();
    });
  };
}
