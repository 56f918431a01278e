/** What the panel of every kind of run has: a status bar, charts, and when they are drawn. */

import {Painter, onLookChange} from "../../lib/page.js";
import {Chart} from "../../charts/chart.js";
import {StatusBar} from "./status.js";

export class BasePanel {
  /**
   * @param {HTMLElement} root holds the status bar and a [data-chart] for each chart
   * @param {(log: import("../log/run_log.js").RunLog | null) => Record<string, string>} [reached]
   *   cells of the status bar that only this kind of run has
   */
  constructor(root, reached) {
    this.root = root;
    this.painter = new Painter();
    this.statusBar = new StatusBar(root, reached);
    this.charts = Object.fromEntries(
      [...root.querySelectorAll("[data-chart]")].map((figure) => [figure.dataset.chart, new Chart(figure, figure.dataset.chart)]),
    );
    /** @type {import("./run_panel.js").PanelContent | null} */
    this.content = null;
    const plots = Object.values(this.charts).map((chart) => chart.plot);
    onLookChange(plots, () => this.request({now: true}));
  }

  /** Show another run, or the set-up that could become one. */
  show(content) {
    this.content = content;
    this.request({now: true});
  }

  /** Take over what has changed about the same run. */
  update(change = {}) {
    Object.assign(this.content, change);
    this.request();
  }

  /** Draw soon, or now: a kind with parts of its own says which. */
  request(options) {
    if (!this.content) return;
    this.statusBar.update(this.content);
    this.painter.request(this, options);
  }
}
