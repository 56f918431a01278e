/**
 * Paints charts without getting in the visitor's way: one chart a frame, in rounds at
 * least 150 ms apart (a second where motion is unwanted), further apart when painting
 * is slow, and never while the page is hidden.
 */

const PAUSE_MS = 150;
const STILL_PAUSE_MS = 1000;
const SLOW_MS = 50;

export class Painter {
  constructor() {
    /** @type {Set<{paint: () => unknown}>} charts that asked since the round began */
    this.asked = new Set();
    /** @type {{paint: () => unknown}[]} what is left of this round */
    this.round = [];
    this.started = 0;
    this.pause = 0;
    this.pending = false;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    document.addEventListener("visibilitychange", () => this.wake());
  }

  /** Have `chart.paint()` called soon; asking twice paints once. */
  request(chart, {now = false} = {}) {
    this.asked.add(chart);
    if (now) this.pause = 0;
    this.wake();
  }

  wake() {
    if (this.pending || document.hidden || this.asked.size + this.round.length === 0) return;
    this.pending = true;
    const due = this.round.length > 0 ? 0 : this.started + this.pause;
    setTimeout(() => requestAnimationFrame(() => this.frame()), Math.max(0, due - performance.now()));
  }

  frame() {
    this.pending = false;
    if (this.round.length === 0) this.begin();
    const chart = this.round.shift();
    const start = performance.now();
    chart?.paint();
    const spent = performance.now() - start;
    if (spent > SLOW_MS) this.pause += 2 * spent;
    this.wake();
  }

  begin() {
    this.round = [...this.asked];
    this.asked.clear();
    this.started = performance.now();
    this.pause = this.still.matches ? STILL_PAUSE_MS : PAUSE_MS;
  }
}
