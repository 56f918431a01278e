/** Under a field that differs from the run in progress: change this run, or only the next. */

import {ApiError, postJson} from "../../lib/api.js";
import {CHANGEABLE, offer} from "./changes.js";

export class MidRun {
  /** @param {HTMLFormElement} form @param {import("../log/live_run.js").LiveRun} run @param {AbortSignal} signal ends it */
  constructor(form, run, signal) {
    this.form = form;
    this.run = run;
    this.left = {}; // values that are for the next run only
    this.notes = Object.fromEntries(Object.keys(CHANGEABLE).filter((name) => form.elements[name]).map((name) => [name, this.note(name)]));
    form.addEventListener("input", () => this.update(), {signal});
    signal.addEventListener("abort", () => Object.values(this.notes).forEach(({box}) => box.remove()));
    this.update();
  }

  note(name) {
    const box = document.createElement("div");
    box.className = "mid-run";
    box.hidden = true;
    const words = document.createElement("p");
    words.className = "small";
    words.setAttribute("role", "status");
    const row = document.createElement("p");
    row.className = "button-row";
    row.append(
      button("button small", "Change this run", () => this.change(name)),
      button("text-button", "Only the next", () => this.leave(name)),
    );
    box.append(words, row);
    document.getElementById(`${name}-error`).after(box);
    return {box, words};
  }

  update() {
    const {log, answer, stopping} = this.run;
    for (const [name, {box, words}] of Object.entries(this.notes)) {
      const typed = this.form.elements[name].value;
      const offered = answer.mine && !stopping && typed !== this.left[name] ? offer(name, typed, answer.config, log) : null;
      if (!offered && box.contains(document.activeElement)) this.form.elements[name].focus();
      box.hidden = offered === null;
      const said = offered?.words ?? "";
      if (words.textContent !== said) words.textContent = said;
    }
  }

  async change(name) {
    const typed = this.form.elements[name].value;
    try {
      await postJson(this.run.answer.links.change, {[name]: Number(typed)});
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.notes[name].words.textContent = error.message;
    }
  }

  leave(name) {
    this.left[name] = this.form.elements[name].value;
    this.update();
  }
}

function button(css, words, onClick) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = css;
  made.textContent = words;
  made.addEventListener("click", onClick);
  return made;
}
