/** What the visitor expects of the end: a point on the accuracy chart, set before the run and held against it after. */

import {percent} from "../../lib/format.js";

export const PREDICTION = "prediction";

export class Prediction {
  /**
   * @param {HTMLElement} part with a button that opens, a slider in percent, its output, and the words of the end
   * @param {() => void} onChange
   */
  constructor(part, onChange) {
    this.part = part;
    this.onChange = onChange;
    this.open = part.querySelector("[data-predict-open]");
    this.box = part.querySelector("[data-predict-box]");
    this.slider = part.querySelector("input");
    this.output = part.querySelector("output");
    this.verdict = part.querySelector("[data-predict-verdict]");
    /** @type {number | null} percent */
    this.value = null;
    this.open.addEventListener("click", () => this.begin());
    this.slider.addEventListener("input", () => this.set(Number(this.slider.value)));
  }

  begin() {
    this.set(Number(this.slider.value));
    this.slider.focus();
  }

  /** @param {number | null} value percent right at the end; null: nothing is expected */
  set(value) {
    this.value = value;
    this.seen = this.log?.isFinal ? this.log : null; // set after that run: for the next one
    this.show();
    this.onChange();
  }

  clear() {
    this.set(null);
    if (!this.open.hidden) this.open.focus();
  }

  /** Whether a click on the chart sets the point. */
  get takesClicks() {
    return this.value !== null && !this.locked;
  }

  /** @param {number} value percent on the chart */
  take(value) {
    const {min, max, step} = this.slider;
    this.slider.value = String(Math.min(Number(max), Math.max(Number(min), Math.round(value / step) * step)));
    this.set(Number(this.slider.value));
  }

  /** The point as the chart draws it. @param {import("../../charts/plan.js").Plan} plan @returns {import("../../charts/ghosts.js").Ghost[]} */
  ghosts(plan) {
    if (this.value === null) return [];
    const point = {test_accuracy: this.value / 100, step: plan.last_step, epsilon: plan.budget, seconds: null};
    return [{id: PREDICTION, label: "your prediction", look: PREDICTION, points: [point]}];
  }

  /** @param {import("../log/run_log.js").RunLog} log of the run, empty before one @param {[number, number]} range of the axis, percent */
  update(log, range) {
    this.locked = log.evaluations.length > 0 && !log.isFinal; // a guess is made before the answer
    this.log = log;
    if (this.value === null) {
      const [floor, ceiling] = range;
      Object.assign(this.slider, {min: String(Math.ceil(floor)), max: String(ceiling), value: String(Math.round((floor + ceiling) / 2))});
    }
    this.show();
  }

  show() {
    const isSet = this.value !== null;
    this.open.hidden = isSet || this.locked;
    this.box.hidden = !isSet;
    this.slider.disabled = this.locked;
    if (isSet) this.output.textContent = percent(this.value / 100);
    this.verdict.textContent = isSet && this.log !== this.seen ? verdict(this.value, this.log) : "";
  }
}

/**
 * Pure: how a run ended beside what was expected of it; nothing before its end.
 * @param {number} value percent @param {import("../log/run_log.js").RunLog | undefined} log
 */
export function verdict(value, log) {
  const reached = log?.isFinal ? log.evaluations.at(-1)?.test_accuracy : undefined;
  if (reached === undefined) return "";
  const off = 100 * reached - value;
  const points = Math.abs(off).toFixed(1);
  const words = points === "0.0" ? "as you said" : `${points} points ${off > 0 ? "above" : "below"} your prediction`;
  return `It ended at ${percent(reached)}, ${words}.`;
}
