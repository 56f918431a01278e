/** Launches a lab's gradient descent as a run, and follows it on the lab's page. */

import {mse} from "./chart.js";
import {status} from "../../../../static/js/runs/panel/base_panel.js";
import {ApiError, postJson} from "../../../../static/js/lib/api.js";
import {integer, plural, roundUp} from "../../../../static/js/lib/format.js";
import {LiveRun} from "../../../../static/js/runs/log/live_run.js";

const RUNS = "/api/v1/runs";

export class DescentRun {
  /**
   * @param {HTMLElement} root contains [data-run], [data-run-stop], [data-run-open], [data-run-summary],
   *   [data-run-said], progress
   */
  constructor(root) {
    this.root = root;
    this.part = (name) => root.querySelector(`[data-run${name}]`);
    this.progress = root.querySelector("progress");
    /** @type {LiveRun | null} */
    this.live = null;
    this.part("").addEventListener("click", () => this.launch());
    this.part("-stop").addEventListener("click", () => this.stop());
    addEventListener("pagehide", () => this.live?.pause());
    addEventListener("pageshow", (event) => event.persisted && this.live?.resume());
  }

  /**
   * Set the settings of the next run.
   * @param {Record<string, any>} settings of a run of kind "regression"
   * @param {{steps: number, noise_text: string, epsilon_text: string}} plan of these settings
   */
  offer(settings, {steps, noise_text: noise, epsilon_text: epsilon}) {
    this.settings = settings;
    const times = integer(settings.repetitions);
    this.part("-summary").textContent = `${plural(steps, "step")} with σ = ${noise}, ε = ${epsilon}, ${times} times.`;
  }

  async launch() {
    const {settings} = this;
    this.part("").disabled = true;
    this.say("Queued");
    try {
      this.follow(await postJson(RUNS, settings));
    } catch (error) {
      this.part("").disabled = false;
      this.refused(error);
    }
  }

  follow(answer) {
    const {steps} = answer;
    const plan = {private: true, steps, last_step: steps, budget_text: "0", digits: 2};
    const open = this.part("-open");
    open.href = answer.links.page;
    open.hidden = this.part("-stop").hidden = this.progress.hidden = false;
    this.live = new LiveRun(answer, {plan}, this, () => this.moved());
    this.live.resume();
  }

  /** Panel interface, called by `LiveRun`. */
  show(content) {
    this.content = content;
    this.update({});
  }

  update(change) {
    Object.assign(this.content, change);
    const {log, plan, activity} = this.content;
    const now = status(log, plan, activity);
    this.progress.max = now.steps;
    this.progress.value = now.step;
    if (log.error) this.say(`${now.word}: ${log.error.message}`);
    else this.say(`${now.word}, ${now.detail}${this.reached(log)}`);
  }

  reached({evaluations}) {
    const last = evaluations.at(-1);
    return last ? `: ε ${roundUp(last.epsilon)}, median MSE ${mse(last.mse_median)}` : "";
  }

  moved() {
    if (!this.live.log.isFinal) return;
    this.part("").disabled = false;
    this.part("-stop").hidden = this.progress.hidden = true;
  }

  async stop() {
    if (!this.live.stopping) await this.live.stop().catch((error) => this.refused(error));
  }

  refused(error) {
    if (!(error instanceof ApiError)) throw error;
    this.say(error.message);
  }

  say(text) {
    this.part("-said").textContent = text;
  }
}
