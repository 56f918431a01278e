/** Form that continues an ended run: number of further steps, their cost, and the launch. */

import {ApiError, getJson, postJson} from "../../lib/api.js";
import {COVERED} from "./mid_run.js";

const PAUSE_MS = 250; // from the last key press to the request for the cost
const CONTINUED = ["done", "cancelled"];
const ASKING = "Computing the cost…";
const NO_NUMBER = "Steps more must be a whole number, at least 1.";

/** Pure: parsed number of steps; null if invalid. */
export function stepsIn(typed) {
  return /^\d{1,9}$/.test(typed.trim()) && Number(typed) > 0 ? Number(typed) : null;
}

export class Continuing {
  /** @param {HTMLElement | null} form null if this run cannot be continued @param {Record<string, any>} run */
  constructor(form, run) {
    this.form = form;
    this.run = run;
  }

  /** Show the form after the end of the run. @param {import("../log/run_log.js").RunLog} log */
  offer(log) {
    if (!this.form || !CONTINUED.includes(log.state) || !this.form.hidden) return;
    this.form.hidden = false;
    this.form.elements.further_steps.addEventListener("input", () => this.choose(PAUSE_MS));
    this.form.addEventListener("submit", (event) => this.go(event));
    this.choose(0);
  }

  /** Read the number of steps; request its cost after a pause. */
  choose(pause) {
    clearTimeout(this.timer);
    const steps = stepsIn(this.form.elements.further_steps.value);
    this.show({steps, words: steps === null ? NO_NUMBER : ASKING, isPriced: false});
    if (steps !== null) this.timer = setTimeout(() => this.ask(this.shown), pause);
  }

  async ask(state) {
    const {words, isPriced} = await this.priceOf(state.steps);
    if (this.shown === state) this.show({...state, words, isPriced});
  }

  async priceOf(steps) {
    try {
      const {words} = await getJson(`${this.run.links.price}?further_steps=${steps}`);
      return {words: this.run.config.private ? `${words} ${COVERED}` : words, isPriced: true};
    } catch (error) {
      return {words: refusal(error), isPriced: false};
    }
  }

  /** Show a state: number of steps, message, and whether the cost is known. */
  show(state) {
    this.shown = state;
    this.form.querySelector("[data-continue-words]").textContent = state.words;
    this.form.querySelector("button").disabled = !state.isPriced;
  }

  async go(event) {
    event.preventDefault();
    const state = this.shown;
    if (!state.isPriced) return;
    this.show({...state, isPriced: false});
    try {
      const child = await postJson(this.run.links.continue, {further_steps: state.steps});
      location.assign(child.links.page);
    } catch (error) {
      this.show({...state, words: refusal(error), isPriced: false});
    }
  }
}

function refusal(error) {
  if (!(error instanceof ApiError)) throw error;
  return error.message.replace(/^further_steps/, "Steps");
}
