/** Under a field that differs from the run in progress: change this run, or only the next. */

import {ApiError, getJson, postJson} from "../../lib/api.js";
import {CHANGEABLE, COVERED, offer} from "./changes.js";

const PAUSE_MS = 250; // in the typing, before the price is asked for

export class MidRun {
  /** @param {HTMLFormElement} form @param {import("../log/live_run.js").LiveRun} run @param {AbortSignal} signal ends it */
  constructor(form, run, signal) {
    this.form = form;
    this.run = run;
    this.left = {}; // values that are for the next run only
    this.prices = {}; // {name: what was asked and the answer}
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
    const change = button("button small", "Change this run", () => this.change(name));
    row.append(change, button("text-button", "Only the next", () => this.leave(name)));
    box.append(words, row);
    document.getElementById(`${name}-error`).after(box);
    return {box, words, change};
  }

  update() {
    const {log, answer, stopping} = this.run;
    for (const [name, {box, words, change}] of Object.entries(this.notes)) {
      const typed = this.form.elements[name].value;
      const offered = answer.mine && !stopping && typed !== this.left[name] ? offer(name, typed, answer.config, log) : null;
      if (!offered && box.contains(document.activeElement)) this.form.elements[name].focus();
      box.hidden = offered === null;
      const price = offered?.isPriced ? this.price(name, offered.value, log.changes.length) : null;
      change.hidden = !offered?.isAllowed || price?.isRefused === true || price?.words === null;
      const said = [offered?.words ?? "", ...(price ? [price.words ?? "Asking what it costs…", ...(price.words && !price.isRefused ? [COVERED] : [])] : [])].join(" ").trim();
      if (words.textContent !== said) words.textContent = said;
    }
  }

  /** What the server says of a change; its words are null until they come. */
  price(name, value, changes) {
    const asked = `${value} ${changes}`;
    if (this.prices[name]?.asked === asked) return this.prices[name];
    clearTimeout(this.prices[name]?.timer);
    const price = {asked, words: null, isRefused: false, timer: setTimeout(() => this.ask(name, value, price), PAUSE_MS)};
    this.prices[name] = price;
    return price;
  }

  async ask(name, value, price) {
    try {
      price.words = (await getJson(`${this.run.answer.links.price}?${name}=${encodeURIComponent(value)}`)).words;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      price.words = error.message;
      price.isRefused = true;
    }
    if (this.prices[name] === price) this.update();
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
