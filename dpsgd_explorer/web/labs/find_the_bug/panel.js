/** Panel of one audited loop; everything in it is drawn from one state. */

import {Chart, showTable} from "../../../../static/js/lib/svg.js";
import {audited, conclusion, marks, said, table} from "./bound.js";

const HEIGHT = 300;
const WORDS = {
  queued: "Waiting for its turn on the server.",
  running: "Running on the server.",
  paused: "Paused on the server.",
  done: "Ran on the server just now, with a seed of its own.",
  failed: "The run failed.",
  cancelled: "Stopped.",
  interrupted: "The run was interrupted.",
};

export class BoundPanel {
  /** @param {HTMLElement} root contains runs/_planted_bug.html */
  constructor(root) {
    this.root = root;
    /** @type {{audited: import("./bound.js").Audited, plan: Record<string, any>, state: string} | null} */
    this.shown = null;
    this.chart = new Chart(this.part("plot"), {
      height: HEIGHT, label: "Bound on epsilon that the canaries prove, step by step, against the promise", draw: () => this.draw(),
    });
  }

  part(name) {
    return this.root.querySelector(`[data-bound-${name}]`);
  }

  /** Follow a run. @param {{log: import("../../../../static/js/runs/log/run_log.js").RunLog, plan: Record<string, any>}} content */
  show(content) {
    this.content = content;
    this.update();
  }

  update(change = {}) {
    Object.assign(this.content, change);
    const {log, plan} = this.content;
    const words = log.error?.message ?? WORDS[log.state] ?? "";
    this.paint(audited(log), plan, words, log.isFinal);
  }

  /** @param {import("./bound.js").Audited} result @param {string} state as text @param {boolean} isFinal */
  paint(result, plan, state, isFinal) {
    this.shown = {audited: result, plan, isFinal};
    this.root.querySelector("[data-conclusion]").textContent = conclusion(result, plan);
    this.part("state").textContent = state;
    this.part("why").textContent = result.seen_by ? plan.why : "";
    const voice = said(result);
    this.part("said").hidden = voice === null;
    this.part("speaker").textContent = voice?.speaker ?? "";
    this.part("text").textContent = voice?.words ?? "";
    showTable(this.part("table"), table(result));
    this.part("plot").hidden = Boolean(result.error);
    this.draw();
  }

  draw() {
    if (!this.shown || !this.chart.width) return;
    const {audited: result, plan} = this.shown;
    this.chart.show(marks(this.chart, result, {promise: plan.promise, steps: plan.steps}));
  }
}
