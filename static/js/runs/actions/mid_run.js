/** Changes of settings during a run, and the list of past changes. */

import {ApiError, getJson, postJson} from "../../lib/api.js";
import {integer, roundUp, significant} from "../../lib/format.js";

const CHANGEABLE = {
  learning_rate: "learning rate η",
  max_grad_norm: "clipping bound C",
  noise_multiplier: "noise multiplier σ",
  expected_batch_size: "batch size B",
  steps: "steps",
};
const PRICE = {
  learning_rate: "It costs no ε: the learning rate does not enter it.",
  max_grad_norm: "It costs no ε: the noise is a multiple of C.",
};
const FIXED =
  "This run has no budget for changes: its ε holds for a plan fixed beforehand, so noise, batch size and steps stay the same. To change them during a run, set a budget for changes before the next run.";
export const COVERED =
  "Chosen while looking: ε covers the choice if the accuracy, ε or the weights led to it, and does not cover it if the loss or the gradients' lengths did.";

/** Pure: current settings of a run. */
export function inForce(config, log) {
  const {noise_multiplier, expected_batch_size, steps} = log.phase ?? {};
  const counted = Object.fromEntries(Object.entries({noise_multiplier, expected_batch_size, steps}).filter(([, value]) => value !== undefined));
  const free = log.changes.map(({changes}) => Object.fromEntries(Object.entries(changes).filter(([name]) => name in PRICE)));
  return Object.assign({}, config, counted, ...free);
}

/** Pure: changes during a run and the reason for its end, as text; "" without changes. */
export function changesSaid(config, log) {
  const now = {...config};
  const begin = log.events.find(({kind}) => kind === "phase")?.data ?? {};
  for (const name of Object.keys(CHANGEABLE)) now[name] = begin[name] ?? now[name];
  const said = log.changes.map(({step, changes: {further_steps: further, ...changes}}, i) => {
    if (further) return `${i ? "continued" : "Continued"} after step ${integer(step)} for ${integer(further)} steps`;
    const parts = Object.entries(changes).map(([name, value]) => `${CHANGEABLE[name]} ${text(name, now[name])} → ${text(name, value)}`);
    Object.assign(now, changes);
    return `${i ? "" : "Changed "}after step ${integer(step)}, ${parts.join(" and ")}`;
  });
  const isFiltered = config.private && config.filter_epsilon;
  return [
    ...(said.length ? [`${said.join("; ")}.`] : []),
    ...(said.length && config.private ? [COVERED] : []),
    ...(isFiltered && said.length ? [`A filter counts every step against the budget ε = ${roundUp(config.filter_epsilon)} fixed at the start: that is the guarantee (bound).`] : []),
    ...(log.end?.reason === "filter_epsilon" ? [`The run ended at its budget: one more step would have exceeded ε = ${roundUp(config.filter_epsilon)}.`] : []),
  ].join(" ");
}

function text(name, value) {
  if (name === "steps" || name === "expected_batch_size") return integer(value);
  return name === "noise_multiplier" ? roundUp(value, 3) : significant(value);
}

/**
 * Pure: note under a field with a value other than the run's; null if no change is possible.
 * @returns {{value: number, words: string, isAllowed: boolean, isPriced: boolean} | null} `isPriced`: if true, the
 *   server computes the cost
 */
export function offer(name, typed, config, log) {
  const value = typed.trim() === "" ? NaN : Number(typed);
  const now = inForce(config, log)[name];
  const isOn = log.state === "running" || log.state === "paused";
  if (!isOn || !(value > 0) || !Number.isFinite(value) || value === now) return null;
  if (name === "max_grad_norm" && (!config.private || config.clipping_schedule === "adaptive")) return null;
  const begin = `${now === undefined || now === null ? "–" : text(name, now)} in this run → ${text(name, value)} from its next step.`;
  if (name in PRICE) return {value, words: `${begin} ${PRICE[name]} ${COVERED}`, isAllowed: true, isPriced: false};
  if (!log.phase || (name === "noise_multiplier" && (!config.private || text(name, now) === text(name, value)))) return null;
  if (config.private && !config.filter_epsilon) return {value, words: FIXED, isAllowed: false, isPriced: false};
  return {value, words: begin, isAllowed: true, isPriced: true};
}

/** Pure: note after a change was requested; a paused run applies it on resume. */
function orderedWords(name, value, log) {
  const when = log.state === "paused" ? "Resume or take one step to apply it." : "";
  return `${CHANGEABLE[name][0].toUpperCase()}${CHANGEABLE[name].slice(1)} will change to ${text(name, value)} at the next step. ${when}`.trim();
}

/** Show the list of changes. @param {HTMLElement | null} place null if this kind of run cannot be changed */
export function showChanges(place, config, log) {
  if (!place) return;
  const words = config ? changesSaid(config, log) : "";
  if (place.textContent !== words) place.textContent = words;
  place.hidden = words === "";
}

const PAUSE_MS = 250; // from the last key press to the request for the cost

export class MidRun {
  /**
   * @param {HTMLFormElement} form @param {import("../log/live_run.js").LiveRun} run @param {AbortSignal} signal
   *   removes the notes when aborted
   */
  constructor(form, run, signal) {
    this.form = form;
    this.run = run;
    this.left = {}; // values that only the next run will use
    this.ordered = {}; // {name: {value, changes}}: requested changes, applied at the next step; `changes`: number of changes in the log at the request
    this.prices = {}; // {name: price}: the last requested cost of each setting
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

  /** Cost of a change from the server; `words` is null until the response. */
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

  /** Cancel a requested change by requesting the current value; the field keeps the typed value. */
  async undo(name) {
    const {answer, log} = this.run;
    if (!(await this.order(name, inForce(answer.config, log)[name]))) return;
    delete this.ordered[name];
    this.update();
  }

  /** Resolves to true if the server accepted the change; otherwise the note shows the error. */
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
  const node = document.createElement("button");
  node.type = "button";
  node.className = css;
  node.textContent = words;
  node.addEventListener("click", onClick);
  return node;
}
