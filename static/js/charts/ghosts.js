/** Ghosts: other runs on the accuracy chart, their list, and the visitor's prediction. */

import {decimals, percent} from "../lib/format.js";
import {heightOf} from "./accuracy_axis.js";
import {thin} from "./base.js";

/**
 * @typedef {object} Look of a line, as the server describes it: `LineBehind` of `web/charts/several_runs.py`
 * @property {string} label
 * @property {string} colour
 * @property {string[]} dashes of the first, second, ... line with this look
 * @property {number} opacity
 * @property {string} symbol of a single point
 * @property {number} size
 * @property {boolean} yields if true, only points ahead of the current run are drawn
 * @property {boolean} reveals if true, the line reveals the result of a prediction
 *
 * @typedef {Look & {id: string, look: string, points: (import("../runs/log/run_log.js").Evaluation & {drawn_at?: number | null})[]}} Ghost
 * `look`: name of the look; `drawn_at`: ε at which a point without privacy is drawn
 */

const LONGEST = 28; // longest label on the chart, in letters

/** Dash style of each ghost, in the chart and in the list below it. @param {Ghost[]} ghosts */
export function dashesOf(ghosts) {
  return ghosts.map(({look, dashes}, i) => dashes[ghosts.slice(0, i).filter((other) => other.look === look).length % dashes.length]);
}

const token = (kind, colour) => (colour.startsWith("ink") ? `--${colour}` : `--${kind}-${colour}`);

/**
 * Visible points of each ghost.
 * @param {Ghost[]} ghosts
 * @param {(point: object) => number | null} x of a point, null if it is not on the axis
 * @param {number} end of the horizontal axis
 * @param {(point: object) => boolean} isAhead true for points that the run has not reached
 */
export function visible(ghosts, x, end, isAhead) {
  const isOn = (point) => x(point) !== null && x(point) <= end;
  return ghosts.map(({points, yields}) => thin(points.filter((point) => isOn(point) && (!yields || isAhead(point))), (point) => point.test_accuracy));
}

/** @param {Ghost[]} ghosts @param {object[][]} shown return value of `visible` */
export function ghostTraces(ghosts, shown, {x, range, hover}, color) {
  const dashes = dashesOf(ghosts);
  return ghosts.flatMap(({label, colour, opacity, symbol, size}, i) => {
    const points = shown[i];
    const line = color(token("series", colour));
    if (points.length === 0) return [];
    return [{
      type: "scatter",
      mode: points.length === 1 ? "markers" : "lines",
      x: points.map(x),
      y: points.map((point) => heightOf(point, range)),
      customdata: points.map((point) => `${label}: ${hover(point)}`),
      hovertemplate: "%{customdata}<extra></extra>",
      opacity,
      line: {color: line, width: 1.25, dash: dashes[i]},
      marker: {color: line, size, symbol},
    }];
  });
}

/** Label of each ghost, with its last visible accuracy. @param {Ghost[]} ghosts @param {object[][]} shown */
export function ghostWords(ghosts, shown, color) {
  return ghosts.map(({label, colour}, i) => ({text: shown[i].length ? `${short(label)}, ${percent(shown[i].at(-1).test_accuracy)}` : "", color: color(token("text", colour))}));
}

function short(label) {
  return label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label;
}

export class GhostList {
  /**
   * @param {HTMLElement | null} list null on pages without ghosts
   * @param {(id: string) => void} onRemove
   */
  constructor(list, onRemove) {
    this.list = list;
    this.shown = "";
    this.focusAt = null;
    list?.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      this.focusAt = Math.max(0, [...list.children].indexOf(button.closest("li")) - 1); // the button itself will be removed
      onRemove(button.dataset.remove);
    });
  }

  /** @param {Ghost[]} ghosts */
  update(ghosts) {
    const names = JSON.stringify(ghosts.map(({id, label}) => [id, label]));
    if (!this.list || names === this.shown) return; // replacing an unchanged list would lose the focus
    this.shown = names;
    const dashes = dashesOf(ghosts);
    this.list.replaceChildren(...ghosts.map((ghost, i) => item(ghost, dashes[i])));
    if (this.focusAt !== null) (this.list.querySelectorAll("button")[this.focusAt] ?? this.list).focus();
    this.focusAt = null;
  }
}

function item({id, label, look}, dash) {
  const line = document.createElement("li");
  const button = Object.assign(document.createElement("button"), {type: "button", textContent: "×"});
  button.dataset.remove = id;
  button.setAttribute("aria-label", `Remove ${label}`);
  const swatch = document.createElement("span");
  swatch.className = `ghost-line ${look} ${dash}`;
  const name = Object.assign(document.createElement("span"), {className: "ghost-name", textContent: label, title: label});
  line.append(swatch, name, button);
  return line;
}

export const PREDICTION = "prediction";

export class Prediction {
  /**
   * @param {HTMLElement} part with an opening button, a slider in percent, its output, and the text of the result
   * @param {Look} look
   * @param {() => void} onChange
   */
  constructor(part, look, onChange) {
    this.part = part;
    this.look = look;
    this.onChange = onChange;
    this.open = part.querySelector("[data-predict-open]");
    this.box = part.querySelector("[data-predict-box]");
    this.slider = part.querySelector("input");
    this.output = part.querySelector("output");
    this.verdict = part.querySelector("[data-predict-verdict]");
    /** @type {number | null} percent; null before the visitor has moved the slider */
    this.value = null;
    this.isOpen = false;
    /**
     * Run that the prediction is compared with, once it has started.
     * @type {import("../runs/log/run_log.js").RunLog | null}
     */
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

  /** @param {number} value final accuracy in percent */
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

  /** True if recorded runs must be hidden, because they would reveal the answer. */
  get hidesAnswers() {
    return this.isOpen && !this.log?.evaluations.length;
  }

  /** True if a click on the chart sets the prediction. */
  get takesClicks() {
    return this.isOpen && !this.locked;
  }

  /** @param {number} value percent on the chart */
  take(value) {
    const {min, max, step} = this.slider;
    this.slider.value = String(Math.min(Number(max), Math.max(Number(min), Math.round(value / step) * step)));
    this.set(Number(this.slider.value));
  }

  /** The prediction as a ghost. @param {import("./plan.js").Plan} plan @returns {Ghost[]} */
  ghosts(plan) {
    if (this.value === null) return [];
    const point = {test_accuracy: this.value / 100, step: plan.last_step, epsilon: plan.budget, seconds: null};
    return [{...this.look, id: PREDICTION, look: PREDICTION, points: [point]}];
  }

  /**
   * @param {import("../runs/log/run_log.js").RunLog} log of the run, empty before it starts
   * @param {[number, number]} range of the axis, percent
   */
  update(log, range) {
    this.locked = log.evaluations.length > 0 && !log.isFinal; // a prediction cannot change once results arrive
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
 * Pure: comparison of a prediction with the final accuracy; "" before the run ends.
 * @param {number} value percent @param {import("../runs/log/run_log.js").RunLog | undefined} log
 */
export function verdict(value, log) {
  const reached = log?.isFinal ? log.evaluations.at(-1)?.test_accuracy : undefined;
  if (reached === undefined) return "";
  const off = 100 * reached - value;
  const points = decimals(Math.abs(off), 1);
  const words = points === "0.0" ? "as you predicted" : `${points} points ${off > 0 ? "above" : "below"} your prediction`;
  return `It ended at ${percent(reached)}, ${words}.`;
}
