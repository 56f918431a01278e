/** What the visitor does to a run while it goes on: pause, resume, one step at a time. */

import {ApiError, postJson} from "../../lib/api.js";
import {MidRun} from "./mid_run.js";
import {StepView} from "./step_view.js";

/** Pure: which buttons there are. @param {import("../log/run_log.js").RunLog} log */
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

const views = new WeakMap(); // one view of a step per panel

export class RunActions {
  /**
   * @param {HTMLElement} root the panel
   * @param {import("../log/live_run.js").LiveRun} run
   */
  constructor(root, run) {
    this.run = run;
    this.place = document.querySelector("[data-actions]");
    const view = root.querySelector("[data-step-view]");
    if (!this.place || !view) this.place = null; // a page or a kind of run without them
    if (!this.place) return;
    this.view = views.get(root) ?? new StepView(view);
    views.set(root, this.view);
    this.buttons = Object.fromEntries([...this.place.querySelectorAll("[data-action]")].map((button) => [button.dataset.action, button]));
    this.listening = new AbortController();
    for (const [name, button] of Object.entries(this.buttons)) {
      button.addEventListener("click", () => this.ask(name), {signal: this.listening.signal});
    }
    const form = document.querySelector("form[data-settings]");
    if (form) this.midRun = new MidRun(form, run, this.listening.signal);
    this.update();
  }

  /** Let go of the page's buttons: another run takes them. */
  release() {
    if (!this.place) return;
    this.listening.abort();
    this.place.hidden = true;
    this.view.show(null);
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
    this.view.show(log.microscope, log.state === "paused");
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
