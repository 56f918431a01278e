/** Player for a slider: a play button, the slider, and a drawing for each of its positions. */

import {part, write} from "../widgets/common/widget_parts.js";

const PACE = {length: 5000, tick: 40}; // milliseconds: of a whole playback, and between two positions
const STILL_TICK_MS = 1000; // tick with reduced motion: few positions, one per second

/** Pure: the slider position after `elapsed` milliseconds of a playback from `first` to `last`. */
export function placeAfter(elapsed, {first, last, length = PACE.length, tick = PACE.tick}) {
  const share = Math.min(1, (Math.floor(elapsed / tick) * tick) / length);
  return Math.round(first + share * (last - first));
}

/**
 * Connect the parts `play`, `place` and `place-words` of an element.
 * @param {HTMLElement} element
 * @param {{words: (position: number) => string, show: (position: number) => void, pace?: {length: number, tick: number}}}
 *   options
 * `words` returns the text of a position, `show` draws it; `pace` has the milliseconds of a whole playback and of a
 * tick.
 */
export function player(element, {words, show, pace = PACE}) {
  const slider = part(element, "place");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let playing = 0; // number of the current playback; frames of earlier ones stop
  let isPlaying = false;

  const last = () => Number(slider.max);
  function stop() {
    isPlaying = false;
    write(element, "play", "Play");
  }
  function go(position) {
    slider.value = String(position);
    slider.setAttribute("aria-valuetext", words(position));
    write(element, "place-words", words(position));
    show(position);
  }
  function play() {
    const turn = ++playing;
    const first = Number(slider.value) === last() ? 0 : Number(slider.value);
    const tick = still.matches ? STILL_TICK_MS : pace.tick;
    const start = performance.now();
    isPlaying = true;
    write(element, "play", "Pause");
    go(first);
    const frame = (time) => {
      if (!isPlaying || turn !== playing) return;
      const position = placeAfter(Math.max(0, time - start), {first, last: last(), ...pace, tick});
      if (position !== Number(slider.value)) go(position);
      if (position === last()) stop();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }
  part(element, "play").addEventListener("click", () => (isPlaying ? stop() : play()));
  slider.addEventListener("input", () => {
    stop();
    go(Number(slider.value));
  });
  return {
    /** Draw the current position. */
    draw: () => go(Number(slider.value)),
    /** Stop, set a new last position, and go to it. */
    reset(newLast) {
      stop();
      slider.max = String(newLast);
      go(newLast);
    },
  };
}
