/** Base class of the panels of all kinds of runs: state as text, status bar, charts, and their scheduling. */

import {Chart} from "../../charts/chart.js";
import {FILTER} from "../../charts/plan.js";
import {clock, decimals, decimalsUp, duration, exponential, integer, percent, plural, roundDown, roundUp} from "../../lib/format.js";
import {Painter, inLight, onLookChange} from "../../lib/page.js";

export const WORDS = {
  ready: "Ready",
  queued: "Queued",
  running: "Training",
  paused: "Paused",
  done: "Finished",
  failed: "Failed",
  cancelled: "Stopped",
  interrupted: "Interrupted",
};

/** Mark before the state's name: ring (waiting), disc (running), square (done), diamond (stopped). */
export const MARKS = {ready: "queued", queued: "queued", paused: "queued", done: "done", failed: "stopped", cancelled: "stopped", interrupted: "stopped"};

/**
 * @param {import("../log/run_log.js").RunLog | null} log null before a run
 * @param {import("../../charts/plan.js").Plan} plan
 * @param {{queuePosition?: number | null, queuePaused?: boolean, stopping?: boolean, replaying?: boolean}} [activity]
 */
export function status(log, plan, activity = {}) {
  const state = log?.state ?? "ready";
  const latest = log?.latest ?? {step: 0, epsilon: 0};
  return {
    state,
    word: word(log, plan, activity),
    mark: MARKS[state] ?? "",
    detail: detail(log, plan, activity),
    waits: waits(log, activity),
    timeLeft: timeLeft(log, plan, activity),
    timeName: log?.isFinal ? "Time taken" : "Time left",
    step: latest.step,
    steps: plan.steps,
    ...spent(latest, plan, log?.isFinal),
    clipped: clipped(log, plan),
    accuracy: log?.accuracy == null ? "–" : percent(log.accuracy),
    audit: audited(log?.end?.audit),
  };
}

/** Pure: lower bound from the run's own audit, once it has ended. */
export function audited(audit) {
  return audit ? `Its own audit proves ε ≥ ${roundDown(audit.epsilon_lower)} of ${roundUp(audit.epsilon_promised)} promised` : "";
}

function word(log, plan, {stopping, replaying}) {
  if (!log) return WORDS.ready;
  if (replaying && !log.isFinal) return "Replay";
  if (stopping && !log.isFinal) return "Stopping";
  if (log.state === "running" && log.steps.length === 0) return "Starting";
  return log.state === "running" ? plan.running ?? WORDS.running : WORDS[log.state];
}

function detail(log, plan, {queuePosition, queuePaused}) {
  if (!log) return plural(plan.steps, plan.unit ?? "step");
  if (log.state === "queued" && queuePaused) return "paused by the operator";
  if (log.state === "queued") return queueWords(queuePosition);
  const steps = `${plan.unit ?? "step"} ${integer(log.latest.step)} of ${integer(plan.steps)}`;
  return steps;
}

/** Duration until the last step; before a run, of the recorded run; after its end, of the run. "–" if unknown. */
function timeLeft(log, plan, {replaying, expected}) {
  if (log?.isFinal) return duration(log.seconds);
  if (!log) return expected ? `about ${duration(expected)}` : "–";
  const left = log.state === "running" && !replaying ? log.secondsLeft(plan.steps) : null;
  return left === null ? "–" : duration(left);
}

/** Reason why a run without new events waits, "" without one. */
function waits(log, {replaying}) {
  const {progress} = log ?? {};
  return progress && log.state === "running" && !replaying ? (WAITS[progress.what]?.(progress) ?? "") : "";
}

/** Reasons why a run without new events waits, by the server's names. */
const WAITS = {
  features: ({done, total}) => `features: ${integer(done)} of ${integer(total)}`,
  torch: ({seconds}) => `loading torch${seconds === null ? "" : `, about ${duration(Math.ceil(seconds))}`}`,
  processor: ({share}) => `waiting for the processor, it has ${percent(share, 0)} of a core`,
  preparation: () => "preparing, checking the model",
  step: () => "a long step",
};

function queueWords(position) {
  if (position === null || position === undefined) return "waiting for a worker";
  return position === 1 ? "next in line" : `place ${position} in line`;
}

function spent({epsilon, step}, plan, isFinal) {
  if (!plan.private) return {epsilon: "∞", budget: "no guarantee", left: "–", leftSteps: ""};
  const value = epsilon ?? 0;
  const shown = Math.min(Number(decimalsUp(value, plan.digits)), Number(plan.budget_text));
  const left = Number(plan.budget_text) - shown; // so that the numbers of the status bar add up
  return {
    epsilon: decimalsUp(value, plan.digits),
    budget: `${plan.accountant === FILTER && step > 0 && !isFinal ? "counted " : ""}of ${plan.budget_text}`,
    left: decimals(left, plan.digits),
    leftSteps: plural(Math.max(0, plan.last_step - step), "step"),
  };
}

function clipped(log, plan) {
  if (!plan.private || plan.clipping_fn !== "Abadi") return "–";
  const share = log?.steps.findLast((step) => step.clipped_fraction !== null)?.clipped_fraction;
  return share === undefined ? "–" : percent(share, 0);
}

/** Pure: message during a lost connection, otherwise "". @param {{offlineSince?: Date | null}} activity */
function outage({offlineSince} = {}) {
  if (!offlineSince) return "";
  return `No connection to the server since ${clock(offlineSince / 1000)}. The run continues without this page, which reconnects automatically.`;
}

/** Occasional message for screen readers. @returns {string} */
export function announcement(log, plan, activity = {}) {
  const now = status(log, plan, activity);
  if (log?.error) return `${now.word}. ${log.error.message}`;
  if (!log || log.steps.length === 0) return `${now.word}, ${now.waits || now.detail}.`;
  if (plan.running) return `${now.word}, ${now.detail}.`;
  const budget = plan.private ? `, ε ${now.epsilon} ${now.budget}` : ", without privacy";
  const reached = log.accuracy === null ? "" : `, accuracy ${percent(log.accuracy)}`;
  return `${now.word}, step ${integer(now.step)} of ${integer(now.steps)}${budget}${reached}.`;
}

const OWN = new Set(["title", "delta", "state", "detail"]); // cells that are not plain text of the status
const SPOKEN_EVERY_MS = 12_000;

class StatusBar {
  /**
   * @param {HTMLElement} root contains [data-status], [data-progress], [data-announce], [data-failure]
   * @param {(log: import("../log/run_log.js").RunLog | null) => Record<string, string>} more texts of cells that only
   *   this kind of run has
   */
  constructor(root, more = () => ({})) {
    this.more = more;
    this.cells = Object.fromEntries(
      [...root.querySelectorAll("[data-status]")].map((cell) => [cell.dataset.status, cell]),
    );
    this.progress = root.querySelector("[data-progress]");
    this.spoken = root.querySelector("[data-announce]");
    this.failure = root.querySelector("[data-failure]");
    this.spokenAt = -Infinity;
    this.spokenState = "";
  }

  /** @param {import("./run_panel.js").PanelContent} content */
  update({log, plan, title, activity}) {
    const now = status(log, plan, activity);
    const {cells} = this;
    const texts = {...now, ...this.more(log)};
    for (const [name, cell] of Object.entries(cells)) {
      if (!OWN.has(name)) setText(cell, texts[name]);
    }
    setText(cells.title, title);
    setText(cells.detail, detailIn(cells, now));
    if (cells.delta) setText(cells.delta, plan.private ? `δ = ${exponential(plan.delta)}` : "");
    setText(cells.state, now.word);
    cells.state.className = `state ${now.mark}`;
    this.progress.max = now.steps;
    this.progress.value = now.step;
    this.showFailure(log, activity);
    this.speak(log, now, announcement(log, plan, activity));
  }

  showFailure(log, activity) {
    const text = sentence(log?.error?.message ?? "") || (log?.isFinal ? "" : outage(activity));
    setText(this.failure, text);
    this.failure.hidden = text === "";
  }

  speak(log, {word}, sentence) {
    const due = performance.now() - this.spokenAt > SPOKEN_EVERY_MS;
    if (!log || (word === this.spokenState && !(due && !log.isFinal))) return;
    this.spokenState = word;
    this.spokenAt = performance.now();
    setText(this.spoken, sentence);
  }
}

/** Pure: the detail of a bar, with what has no cell of its own. */
function detailIn(cells, {detail, waits: reason, timeLeft: left, timeName: name}) {
  if (reason && !cells.waits) return reason;
  if (cells.timeLeft || left === "–") return detail;
  return `${detail}, ${left}${name === "Time left" ? " left" : ""}`;
}

/** Messages begin in lower case; on a page they are sentences of their own. */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export class BasePanel {
  /**
   * @param {HTMLElement} root contains the status bar and a [data-chart] for each chart
   * @param {(log: import("../log/run_log.js").RunLog | null) => Record<string, string>} [reached] texts of cells of
   *   the status bar that only this kind of run has
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
    addEventListener("beforeprint", () => this.paintForPaper());
  }

  /** Show another run, or the settings of a future run. */
  show(content) {
    this.content = content;
    this.request({now: true});
  }

  /** Apply changes of the current run. */
  update(change = {}) {
    Object.assign(this.content, change);
    this.request();
  }

  /** Draw at once, in the colours of paper. */
  paintForPaper() {
    inLight(() => {
      this.request();
      this.painter.flush();
    });
  }

  /** Schedule the drawing; subclasses add their own parts. */
  request(options) {
    if (!this.content) return;
    this.statusBar.update(this.content);
    this.painter.request(this, options);
  }
}
