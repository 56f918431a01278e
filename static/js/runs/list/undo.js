/** Recently deleted runs: one line each, with the seconds left to undo. */

import {postJson} from "../../lib/api.js";

const TICK_MS = 250;

export class UndoLines {
  /**
   * @param {HTMLElement} place contains the lines, each a [data-undo] with its [data-seconds]
   * @param {{onUndone: () => Promise<void>, onError: (error: Error) => void, onGone: () => void}} options `onGone`:
   *   called when the last line is removed while it has the focus
   */
  constructor(place, {onUndone, onError, onGone}) {
    Object.assign(this, {place, onUndone, onError, onGone});
    this.timer = null;
    place.addEventListener("click", (event) => {
      const button = event.target.closest("[data-restore]");
      if (button) this.restore(button);
    });
    this.start();
  }

  /** Show the server's lines. @param {Node[]} lines */
  replace(lines) {
    this.place.replaceChildren(...lines);
    this.start();
  }

  /** Move the focus to the undo button of the last deletion. */
  focus() {
    this.place.querySelector("[data-restore]")?.focus();
  }

  get lines() {
    return this.place.querySelectorAll("[data-undo]");
  }

  start() {
    const now = performance.now();
    for (const line of this.lines) line.ends = now + 1000 * Number(line.dataset.seconds);
    clearInterval(this.timer);
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.tick();
  }

  tick() {
    const now = performance.now();
    for (const line of this.lines) {
      const left = Math.ceil((line.ends - now) / 1000);
      line.querySelector("[data-left]").textContent = `${left} s left`;
      if (left <= 0) this.remove(line);
    }
    if (this.lines.length === 0) clearInterval(this.timer);
  }

  remove(line) {
    const hadFocus = line.contains(document.activeElement);
    line.remove();
    if (hadFocus) this.onGone();
  }

  async restore(button) {
    const line = button.closest("[data-undo]");
    button.disabled = true;
    try {
      await postJson(line.dataset.undo, {});
      line.remove();
      await this.onUndone();
    } catch (error) {
      button.disabled = false;
      this.onError(error);
    }
  }
}
