/** Other runs on the accuracy chart: their lines, their list, and the visitor's prediction. */

import {percent} from "../lib/format.js";
import {fanned} from "../lib/svg.js";
import {heightOf} from "./accuracy_axis.js";
import {thin, words} from "./base.js";

/**
 * @typedef {object} Ghost
 * @property {string} id
 * @property {string} label
 * @property {(import("../runs/log/run_log.js").Evaluation & {drawn_at?: number | null})[]} points drawn_at: the ε at which a
 *   point that spends nothing stands
 * @property {"recorded" | "twin" | "prediction" | "run"} [look] a run by default
 * @property {boolean} [yields] drawn only ahead of the line of the run
 */

const DASHES = ["solid", "dot", "dashdot", "longdashdot"]; // tells pinned runs apart
const LOOKS = {
  recorded: {line: "--series-private", text: "--text-private", opacity: 0.6},
  twin: {line: "--series-twin", text: "--text-twin", dash: "dash"},
  prediction: {line: "--ink", text: "--ink", symbol: "diamond-open", size: 10},
  run: {line: "--ink-3", text: "--ink-3"},
};
const GAP = 17; // px between the labels
const LONGEST = 28; // letters of a label on the chart

/** How each ghost is drawn, here and in the list below the chart. @param {Ghost[]} ghosts */
export function looks(ghosts) {
  const runs = ghosts.filter(({look = "run"}) => look === "run");
  return ghosts.map((ghost) => ({dash: DASHES[runs.indexOf(ghost) % DASHES.length] ?? "solid", ...LOOKS[ghost.look ?? "run"]}));
}

/**
 * The points of each ghost that the chart shows.
 * @param {Ghost[]} ghosts
 * @param {(point: object) => number | null} x of a point, null where it has none
 * @param {number} end of the horizontal axis
 * @param {(point: object) => boolean} isAhead whether the run has not overtaken a point
 */
export function visible(ghosts, x, end, isAhead) {
  const isOn = (point) => x(point) !== null && x(point) <= end;
  return ghosts.map(({points, yields}) => thin(points.filter((point) => isOn(point) && (!yields || isAhead(point))), (point) => point.test_accuracy));
}

/** @param {Ghost[]} ghosts @param {object[][]} shown as `visible` returns them */
export function ghostTraces(ghosts, shown, {x, range, hover}, color) {
  const drawn = looks(ghosts);
  return ghosts.flatMap(({label}, i) => {
    const points = shown[i];
    const {line, dash, opacity = 1, symbol = "circle", size = 5} = drawn[i];
    if (points.length === 0) return [];
    return [{
      type: "scatter",
      mode: points.length === 1 ? "markers" : "lines",
      x: points.map(x),
      y: points.map((point) => heightOf(point, range)),
      customdata: points.map((point) => `${label}: ${hover(point)}`),
      hovertemplate: "%{customdata}<extra></extra>",
      opacity,
      line: {color: color(line), width: 1.25, dash},
      marker: {color: color(line), size, symbol},
    }];
  });
}

/**
 * The names of the ghosts, one under another in the order of their ends, below the lowest of them: the lines of
 * accuracies rise, so the room is free there.
 * @param {(height: number) => number} pixel px of a height below the top of the plot
 * @param {number} top px below which the names begin; `floor`: above which they end
 * @param {number} end of the names on the horizontal axis
 */
export function ghostLabels(ghosts, shown, {x, range, pixel, top, floor, end}, color) {
  const drawn = looks(ghosts);
  const ends = shown.flatMap((points, i) => (points.length ? [{i, last: points.at(-1), at: pixel(heightOf(points.at(-1), range))}] : []));
  if (ends.length === 0) return [];
  const right = Math.min(end, Math.max(...ends.map(({last}) => x(last))));
  const begin = Math.max(top, Math.min(Math.max(...ends.map(({at}) => at)) + 2.1 * GAP, floor - GAP * ends.length));
  const places = fanned(ends.map(({at}) => at), GAP, begin).map((place, k) => Math.max(place, begin) - ends[k].at);
  return ends.map(({i, last}, k) => words(`${short(ghosts[i].label)}, ${percent(last.test_accuracy)}`, color(drawn[i].text), {
    x: right, xanchor: "right", xshift: -12, y: heightOf(last, range), yshift: -places[k], bgcolor: color("--surface"),
  }));
}

function short(label) {
  return label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label;
}

export class GhostList {
  /**
   * @param {HTMLElement | null} list none on pages that show no ghosts
   * @param {(id: string) => void} onRemove
   */
  constructor(list, onRemove) {
    this.list = list;
    this.shown = "";
    this.focusAt = null;
    list?.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      this.focusAt = Math.max(0, [...list.children].indexOf(button.closest("li")) - 1); // its own button will be gone
      onRemove(button.dataset.remove);
    });
  }

  /** @param {Ghost[]} ghosts */
  update(ghosts) {
    const names = JSON.stringify(ghosts.map(({id, label}) => [id, label]));
    if (!this.list || names === this.shown) return; // what stands there may hold the focus
    this.shown = names;
    const drawn = looks(ghosts);
    this.list.replaceChildren(...ghosts.map((ghost, i) => item(ghost, drawn[i])));
    if (this.focusAt !== null) (this.list.querySelectorAll("button")[this.focusAt] ?? this.list).focus();
    this.focusAt = null;
  }
}

function item({id, label, look = "run"}, {dash}) {
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
    /** The run that the prediction was made for, once it has begun. @type {import("../runs/log/run_log.js").RunLog | null} */
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

  /** The point as the chart draws it. @param {import("./plan.js").Plan} plan @returns {Ghost[]} */
  ghosts(plan) {
    if (this.value === null) return [];
    const point = {test_accuracy: this.value / 100, step: plan.last_step, epsilon: plan.budget, seconds: null};
    return [{id: PREDICTION, label: "your prediction", look: PREDICTION, points: [point]}];
  }

  /** @param {import("../runs/log/run_log.js").RunLog} log of the run, empty before one @param {[number, number]} range of the axis, percent */
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
 * @param {number} value percent @param {import("../runs/log/run_log.js").RunLog | undefined} log
 */
export function verdict(value, log) {
  const reached = log?.isFinal ? log.evaluations.at(-1)?.test_accuracy : undefined;
  if (reached === undefined) return "";
  const off = 100 * reached - value;
  const points = Math.abs(off).toFixed(1);
  const words = points === "0.0" ? "as you predicted" : `${points} points ${off > 0 ? "above" : "below"} your prediction`;
  return `It ended at ${percent(reached)}, ${words}.`;
}
