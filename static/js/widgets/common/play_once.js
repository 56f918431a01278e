/** A widget that shows its mechanism once by itself, as soon as enough of it is in view. */

const SEEN = 0.35; // share of the widget
const DELAY_MS = 600;
const USES = ["pointerdown", "keydown", "input", "change", "start"]; // from then on the visitor is in charge

/**
 * Call `frames` one after another, once; with reduced motion only the last. Any use of the widget ends it.
 * @param {HTMLElement} element @param {(() => void)[]} frames @param {number} tick milliseconds between two frames
 */
export function playOnce(element, frames, tick) {
  if (!globalThis.IntersectionObserver || element.dataset.start) return; // a link says how it starts
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let waiting = 0;
  const end = () => {
    clearTimeout(waiting);
    observer.disconnect();
    for (const use of USES) element.removeEventListener(use, end);
  };
  const play = (index) => {
    frames[index]();
    if (index + 1 === frames.length) end();
    else waiting = setTimeout(() => play(index + 1), tick);
  };
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some(({isIntersecting}) => isIntersecting)) return;
    observer.disconnect();
    waiting = setTimeout(() => play(isStill ? frames.length - 1 : 0), isStill ? 0 : DELAY_MS);
  }, {threshold: SEEN});
  for (const use of USES) element.addEventListener(use, end);
  observer.observe(element);
}

/** Pure: `count` numbers from one value to another, eased at both ends. */
export function glide(from, to, count) {
  return Array.from({length: count}, (_, i) => {
    const share = (i + 1) / count;
    const eased = share < 0.5 ? 2 * share * share : 1 - 2 * (1 - share) ** 2;
    return share === 1 ? to : from + (to - from) * eased;
  });
}
