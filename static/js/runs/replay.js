/** Plays a finished run again, or stops at any step of it. */

import {integer} from "../lib/format.js";

const LENGTH_MS = 7000;
const TICK_MS = 100;
const STILL_TICK_MS = 1000;

export class Replay {
  /**
   * @param {HTMLElement} root holds [data-play], [data-scrub], [data-place]
   * @param {import("./run_log.js").RunLog} log of the whole run
   * @param {(past: import("./run_log.js").RunLog) => void} onMove
   */
  constructor(root, log, onMove) {
    this.log = log;
    this.onMove = onMove;
    this.button = root.querySelector("[data-play]");
    this.slider = root.querySelector("[data-scrub]");
    this.place = root.querySelector("[data-place]");
    this.timer = null;
    this.last = log.latest.step;
    this.slider.max = String(this.last);
    this.button.addEventListener("click", () => (this.timer === null ? this.play() : this.pause()));
    this.slider.addEventListener("input", () => {
      this.pause();
      this.show(Number(this.slider.value));
    });
    this.show(this.last);
    root.hidden = false;
  }

  play() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const tick = still ? STILL_TICK_MS : TICK_MS;
    this.at = Number(this.slider.value) >= this.last ? 0 : Number(this.slider.value);
    this.timer = setInterval(() => this.advance((this.last * tick) / LENGTH_MS), tick);
    this.button.textContent = "Pause";
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
  }

  advance(steps) {
    this.at = Math.min(this.last, this.at + steps);
    this.show(Math.floor(this.at));
    if (this.at >= this.last) this.pause();
  }

  show(step) {
    this.slider.value = String(step);
    const words = `step ${integer(step)} of ${integer(this.last)}`;
    this.slider.setAttribute("aria-valuetext", words);
    this.place.textContent = words;
    this.onMove(this.log.until(step));
  }
}
