/** What the bench of every kind of run has: a status strip, charts, and when they are drawn. */

import {Painter} from "../lib/schedule.js";
import {onThemeChange} from "../lib/tokens.js";
import {Chart} from "../charts/chart.js";
import {StatusStrip} from "./status_strip.js";

export class RunBench {
  /**
   * @param {HTMLElement} root holds the strip and a [data-chart] for each chart
   * @param {(log: import("./run_log.js").RunLog | null) => Record<string, string>} [reached]
   *   cells of the strip that only this kind of run has
   */
  constructor(root, reached) {
    this.root = root;
    this.painter = new Painter();
    this.strip = new StatusStrip(root, reached);
    this.charts = Object.fromEntries(
      [...root.querySelectorAll("[data-chart]")].map((figure) => [figure.dataset.chart, new Chart(figure, figure.dataset.chart)]),
    );
    /** @type {import("./run_panel.js").Scene | null} */
    this.scene = null;
    onThemeChange(() => this.request({now: true}));
    const observer = new ResizeObserver(() => this.request({now: true}));
    for (const chart of Object.values(this.charts)) observer.observe(chart.plot);
  }

  /** Show another run, or the set-up that could become one. */
  show(scene) {
    this.scene = scene;
    this.request({now: true});
  }

  /** Take over what has changed about the same run. */
  update(change = {}) {
    Object.assign(this.scene, change);
    this.request();
  }

  /** Draw soon, or now: a kind with parts of its own says which. */
  request(options) {
    if (!this.scene) return;
    this.strip.update(this.scene);
    this.painter.request(this, options);
  }
}
