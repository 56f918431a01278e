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
    /** @type {number | null} percent; null: the visitor has moved nothing yet */
    this.value = null;
    this.isOpen = false;
    /** The run that the prediction was made for, once it has begun. @type {import("../log/run_log.js").RunLog | null} */
    this.judged = null;
    this.open.addEventListener("click", () => this.begin());
    part.querySelector("[data-predict-close]").addEventListener("click", () => this.clear());
    this.slider.addEventListener("input", () => this.set(Number(this.slider.value)));
  }

  begin() {
    this.isOpen = true;
    this.show();
    this.onChange();
    this.slider.focus();
  }

  /** @param {number} value percent right at the end */
  set(value) {
    this.value = value;
    this.judged = null;
    this.show();
    this.onChange();
  }

  clear() {
    this.value = null;
    this.isOpen = false;
    this.show();
    this.onChange();
    if (!this.open.hidden) this.open.focus();
  }

  /** Whether the ends of recorded runs would give the answer away. */
  get hidesAnswers() {
    return this.isOpen && !this.log?.evaluations.length;
  }

  /** Whether a click on the chart sets the point. */
  get takesClicks() {
    return this.isOpen && !this.locked;
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
    if (this.value !== null && !log.isFinal && log.events.length > 0) this.judged ??= log;
    if (this.value === null) {
      const [floor, ceiling] = range;
      Object.assign(this.slider, {min: String(Math.ceil(floor)), max: String(ceiling), value: String(Math.round((floor + ceiling) / 2))});
    }
    this.show();
  }

  show() {
    const isSet = this.value !== null;
    this.open.hidden = this.isOpen || this.locked;
    this.box.hidden = !this.isOpen;
    this.slider.disabled = this.locked;
    this.output.textContent = isSet ? percent(this.value / 100) : "move it";
    this.verdict.textContent = isSet && this.log === this.judged ? verdict(this.value, this.log) : "";
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
  const words = points === "0.0" ? "as you predicted" : `${points} points ${off > 0 ? "above" : "below"} your prediction`;
  return `It ended at ${percent(reached)}, ${words}.`;
}
