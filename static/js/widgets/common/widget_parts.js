/** What the script of a widget asks of its page. */

/** The element that a template marks as data-part="name"; a missing one is an error of the template. */
export function part(element, name) {
  const found = element.querySelector(`[data-part="${name}"]`);
  if (!found) throw new Error(`the widget ${element.id} has no part ${name}`);
  return found;
}

/** Write into a part. */
export function write(element, name, words) {
  part(element, name).textContent = words;
}

const STILL_MS = 700;

/** A function that says words to a screen reader once the hand rests; the first state is not announced. */
export function speaker(element) {
  const place = part(element, "spoken");
  let waiting = 0;
  let last = null;
  return (words) => {
    clearTimeout(waiting);
    if (last === null) last = words;
    waiting = setTimeout(() => {
      if (words !== last) place.textContent = words;
      last = words;
    }, STILL_MS);
  };
}

/** A function that has `draw` run in the next frame, however often it is called before. */
export function oncePerFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}
