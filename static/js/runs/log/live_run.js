/** Live run: followed, paused, resumed, single-stepped and stopped. */

import {ApiError, getJson, postJson} from "../../lib/api.js";
import {MidRun} from "../actions/mid_run.js";
import {RunFeed, RunLog} from "./run_log.js";

const QUEUE_MS = 2000;
const OUTAGE_MS = 5000; // ms; a shorter loss of the connection is not shown

export class LiveRun {
  /**
   * @param {Record<string, any>} answer the run from the API
   * @param {Record<string, any>} content of the panel, except for the log
   * @param {{show: (content: object) => void, update: (change: object) => void}} panel
   * @param {() => void} onState called when the state changes
   * @param {() => void} onEvent called after each event
   */
  constructor(answer, content, panel, onState, onEvent = () => {}) {
    this.answer = answer;
    this.panel = panel;
    Object.assign(this, {onState, onEvent});
    this.log = new RunLog();
    this.stopping = false;
    this.offlineSince = null;
    this.isOutage = false;
    this.takePlace(answer);
    this.feed = new RunFeed({
      eventsUrl: answer.links.events,
      logUrl: answer.links.log,
      onEvent: (event) => this.take(event),
      onConnection: (isOnline) => this.connected(isOnline),
    });
    panel.show({...content, log: this.log, activity: this.activity});
    this.actions = new RunActions(panel.root, this);
  }

  get activity() {
    const {queuePosition, queuePaused, stopping, offlineSince} = this;
    return {queuePosition, queuePaused, stopping, offlineSince: this.isOutage ? offlineSince : null};
  }

  takePlace(answer) {
    this.queuePosition = answer.queue_position;
    this.queuePaused = answer.queue_paused;
  }

  resume() {
    this.feed.open(this.log.seq);
    this.watchQueue();
  }

  pause() {
    this.feed.close();
    clearTimeout(this.queueTimer);
    clearTimeout(this.outageTimer);
  }

  /**
   * Handle an opened or lost stream. A loss is shown if it lasts, and a reconnect clears the messages of errors in
   * between.
   */
  connected(isOnline) {
    if (isOnline === (this.offlineSince === null)) return;
    this.offlineSince = isOnline ? null : new Date();
    const wasSaid = this.isOutage;
    this.isOutage = false;
    clearTimeout(this.outageTimer);
    if (!isOnline) this.outageTimer = setTimeout(() => this.sayOutage(), OUTAGE_MS);
    if (!isOnline || !wasSaid) return;
    for (const line of document.querySelectorAll("[data-run-error]")) line.hidden = true;
    this.panel.update({activity: this.activity});
  }

  sayOutage() {
    this.isOutage = true;
    this.panel.update({activity: this.activity});
  }

  /** Detach from the panel before it shows another run. */
  release() {
    this.pause();
    this.actions.release();
  }

  take(event) {
    const before = this.log.state;
    this.log.add(event);
    if (this.log.isFinal) this.stopping = false;
    this.panel.update({activity: this.activity});
    this.actions.update();
    this.onEvent();
    if (this.log.state === before) return;
    this.watchQueue();
    this.onState();
  }

  /** Poll the position in the queue while the run is queued. */
  watchQueue() {
    clearTimeout(this.queueTimer);
    if (this.log.state === "queued") this.queueTimer = setTimeout(() => this.askForPlace(), QUEUE_MS);
  }

  async askForPlace() {
    const answer = await getJson(this.answer.links.self).catch(() => null);
    if (answer && this.log.state === "queued") {
      this.takePlace(answer);
      this.panel.update({activity: this.activity});
    }
    this.watchQueue();
  }

  /** Request a stop; the run stops within seconds. */
  async stop() {
    this.stopping = true;
    this.actions.update();
    this.panel.update({activity: this.activity});
    try {
      await postJson(this.answer.links.cancel, {});
    } catch (error) {
      this.stopping = false;
      this.panel.update({activity: this.activity});
      throw error;
    }
  }
}

/** Pure: visibility of the buttons. @param {import("./run_log.js").RunLog} log */
export function offered(log, {mine, stopping}) {
  const isPaused = log.state === "paused";
  const isOn = mine && !log.isFinal && !stopping;
  return {
    shown: isOn && (isPaused || log.state === "running" || log.wasPaused),
    pause: !isPaused,
    resume: isPaused,
    step: isPaused,
  };
}

/**
 * One step view per panel, loaded when a run shows its first step.
 * @type {WeakMap<HTMLElement, Promise<import("../actions/step_view.js").StepView>>}
 */
const views = new WeakMap();

async function loadStepView(root) {
  const {StepView} = await import("../actions/step_view.js");
  return new StepView(root);
}

class RunActions {
  /**
   * @param {HTMLElement} root the panel
   * @param {LiveRun} run
   */
  constructor(root, run) {
    this.run = run;
    this.place = document.querySelector("[data-actions]");
    this.stepRoot = root.querySelector("[data-step-view]");
    if (!this.stepRoot) this.place = null; // the page or the kind of run has no step view
    if (!this.place) return;
    this.buttons = Object.fromEntries([...this.place.querySelectorAll("[data-action]")].map((button) => [button.dataset.action, button]));
    this.listening = new AbortController();
    for (const [name, button] of Object.entries(this.buttons)) {
      button.addEventListener("click", () => this.ask(name), {signal: this.listening.signal});
    }
    const form = document.querySelector("form[data-settings]");
    if (form) this.midRun = new MidRun(form, run, this.listening.signal);
    this.update();
  }

  /** Detach from the page's buttons before another run uses them. */
  release() {
    if (!this.place) return;
    this.listening.abort();
    this.place.hidden = true;
    this.showStep(null);
  }

  /** Show a step, or no step if null. After a failed load, the next update tries again. */
  async showStep(step, isPaused = false) {
    if (!step && !views.has(this.stepRoot)) return;
    if (!views.has(this.stepRoot)) views.set(this.stepRoot, loadStepView(this.stepRoot));
    try {
      (await views.get(this.stepRoot)).show(step, isPaused);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      views.delete(this.stepRoot);
    }
  }

  update() {
    if (!this.place) return;
    const {log, answer, stopping} = this.run;
    const now = offered(log, {mine: answer.mine, stopping});
    const focused = document.activeElement;
    this.place.hidden = !now.shown;
    for (const [name, button] of Object.entries(this.buttons)) button.hidden = !now[name];
    if (focused === this.buttons.pause && !now.pause) this.buttons.resume.focus();
    if ((focused === this.buttons.resume || focused === this.buttons.step) && !now.resume) this.buttons.pause.focus();
    this.showStep(log.microscope, log.state === "paused");
    this.midRun?.update();
  }

  async ask(name) {
    this.say("");
    try {
      await postJson(this.run.answer.links[name], {});
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.say(error.message);
    }
  }

  say(message) {
    const line = document.querySelector("[data-run-error]");
    line.textContent = message;
    line.hidden = message === "";
  }
}
