/** Helpers for the scripts of widgets. */

/** Element with data-part="name"; raises an error if the template has no such part. */
export function part(element, name) {
  const match = element.querySelector(`[data-part="${name}"]`);
  if (!match) throw new Error(`the widget ${element.id} has no part ${name}`);
  return match;
}

/** Set the text of a part. */
export function write(element, name, words) {
  part(element, name).textContent = words;
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
