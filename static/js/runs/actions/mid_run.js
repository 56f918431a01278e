/** Under a field that differs from the run in progress: change this run, or only the next. */

import {ApiError, getJson, postJson} from "../../lib/api.js";
import {CHANGEABLE, COVERED, inForce, offer, orderedWords} from "./changes.js";

const PAUSE_MS = 250; // in the typing, before the price is asked for

export class MidRun {
  /** @param {HTMLFormElement} form @param {import("../log/live_run.js").LiveRun} run @param {AbortSignal} signal ends it */
  constructor(form, run, signal) {
    this.form = form;
    this.run = run;
    this.left = {}; // values that are for the next run only
    this.ordered = {}; // {name: {value, changes}}: taken at the next step; changes: those that the log held then
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
    const leave = button("text-button", "Only the next", () => this.leave(name));
    const undo = button("text-button", "Undo", () => this.undo(name));
    row.append(change, leave, undo);
    box.append(words, row);
    document.getElementById(`${name}-error`).after(box);
    return {box, words, change, leave, undo};
  }

  update() {
    const {log, answer, stopping} = this.run;
    for (const [name, note] of Object.entries(this.notes)) {
      const typed = this.form.elements[name].value;
      const offered = answer.mine && !stopping && typed !== this.left[name] ? offer(name, typed, answer.config, log) : null;
      const isOrdered = offered !== null && this.isOrdered(name, offered.value);
      const focused = document.activeElement;
      const hadFocus = note.box.contains(focused);
      note.box.hidden = offered === null;
      const price = offered?.isPriced && !isOrdered ? this.price(name, offered.value, log.changes.length) : null;
      note.change.hidden = isOrdered || !offered?.isAllowed || price?.isRefused === true || price?.words === null;
      note.leave.hidden = isOrdered;
      note.undo.hidden = !isOrdered;
      if (hadFocus && note.box.hidden) this.form.elements[name].focus();
      else if (hadFocus && focused.hidden) (isOrdered ? note.undo : note.change.hidden ? note.leave : note.change).focus();
      const said = isOrdered ? orderedWords(name, offered.value, log) : [offered?.words ?? "", ...(price ? [price.words ?? "Computing the cost…", ...(price.words && !price.isRefused ? [COVERED] : [])] : [])].join(" ").trim();
      if (note.words.textContent !== said) note.words.textContent = said;
    }
  }

  isOrdered(name, value) {
    const ordered = this.ordered[name];
    return ordered?.value === value && ordered.changes === this.run.log.changes.length;
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
    const value = Number(this.form.elements[name].value);
    if (!(await this.order(name, value))) return;
    this.ordered[name] = {value, changes: this.run.log.changes.length};
    this.update();
  }

  /** The value in force, ordered, takes the change back; the field keeps what was typed. */
  async undo(name) {
    const {answer, log} = this.run;
    if (!(await this.order(name, inForce(answer.config, log)[name]))) return;
    delete this.ordered[name];
    this.update();
  }

  /** Whether the server took the order; where it did not, the note says why. */
  async order(name, value) {
    try {
      await postJson(this.run.answer.links.change, {[name]: value});
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.notes[name].words.textContent = error.message;
      return false;
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
