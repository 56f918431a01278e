/** What the scenes share: drawing over time, the mark of record 24, and their parts. */

import {clamp} from "../../../static/js/lib/svg.js";
import {nine} from "../../../static/js/widgets/common/humps.js";
import {part, write} from "../../../static/js/widgets/common/widget_parts.js";

export {nine, part, write};

/**
 * @typedef {object} Course functions of the course for its scenes
 * @property {(goal: string) => void} reach mark a goal of the scene as reached
 * @property {(words: string) => void} speak announce text to screen readers
 */

/** Pure: value between two ends, `share` of the way. */
export const between = (from, to, share) => from + (to - from) * share;

/** Pure: progress from 0 to 1 while `value` goes from `from` to `to`. */
export const progress = (value, from, to) => clamp((value - from) / (to - from), 0, 1);

const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");

/**
 * Call `show` with a share from 0 to 1 over some time, then `end`; at once where motion is not wanted.
 * @returns {() => void} a function that stops it, without a call of `end`
 */
export function animate(duration_ms, show, end = () => {}) {
  if (still?.matches || document.hidden) {
    show(1);
    end();
    return () => {};
  }
  const start = performance.now();
  let frame = requestAnimationFrame(function next(now) {
    const share = clamp((now - start) / duration_ms, 0, 1);
    show(share);
    if (share < 1) frame = requestAnimationFrame(next);
    else end();
  });
  return () => cancelAnimationFrame(frame);
}
