/** Settings form: sliders next to boxes, switches, the fold of all settings, and errors at their fields. */

import {ApiError} from "../lib/api.js";
import {given, labelled, missing, positionOf, toJson, valueAt} from "./query.js";

export class SettingsForm {
  /**
   * @param {HTMLFormElement} form
   * @param {{fields: import("./query.js").Field[], switches: Record<string, string[]>}} about
   * @param {(input?: HTMLElement, about?: {typing: boolean}) => void} onChange `typing`: if true, more key presses
   *   may follow
   */
  constructor(form, {fields, switches}, onChange) {
    this.form = form;
    this.fields = fields;
    this.switches = switches;
    this.onChange = onChange;
    this.byName = Object.fromEntries(fields.map((field) => [field.name, field]));
    this.sliders = Object.fromEntries(
      [...form.querySelectorAll("[data-slider]")].map((slider) => [slider.dataset.slider, slider]),
    );
    form.addEventListener("input", (event) => this.changed(event.target));
    form.addEventListener("change", (event) => this.left(event.target));
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const name of Object.keys(this.sliders)) this.describeSlider(name);
  }

  changed(input) {
    if (input.dataset.slider) this.slid(input.dataset.slider);
    else if (this.sliders[input.name]) this.moveSlider(input.name);
    const field = this.byName[input.dataset.slider ?? input.name];
    if (field) this.showError(field, ""); // the error described the previous value
    this.typed = isBox(input);
    this.onChange(input, {typing: this.typed});
  }

  /** A box that loses the focus, or gets Enter, has its final value. */
  left(input) {
    if (this.typed && isBox(input)) this.onChange(input, {typing: false});
    this.typed = false;
  }

  slid(name) {
    const {marks, step, kind} = this.byName[name];
    const value = valueAt(marks, Number(this.sliders[name].value), {step, whole: kind === "integer"});
    this.form.elements[name].value = asTyped(value);
    this.describeSlider(name);
  }

  moveSlider(name) {
    const text = this.form.elements[name].value;
    const value = Number(text);
    if (text === "" || Number.isNaN(value)) return;
    this.sliders[name].value = String(positionOf(this.byName[name].marks, value));
    this.describeSlider(name);
  }

  describeSlider(name) {
    this.sliders[name].setAttribute("aria-valuetext", this.form.elements[name].value || "not set");
  }

  /** Make the box of the number that is solved for read-only. @param {string[]} names @param {string} solved */
  lock(names, solved) {
    for (const name of names) {
      const follows = name === solved;
      this.form.querySelector(`[data-field="${name}"]`).classList.toggle("follows", follows);
      this.form.elements[name].readOnly = follows;
      if (this.sliders[name]) this.sliders[name].disabled = follows;
    }
  }

  /** Chosen member of each switch. */
  get chosen() {
    return Object.fromEntries(Object.keys(this.switches).map((name) => [name, this.form.elements[name].value]));
  }

  /** Text of every box. @returns {Record<string, string>} */
  get texts() {
    return Object.fromEntries(this.fields.map(({name}) => [name, this.form.elements[name].value.trim()]));
  }

  /** Settings to send, as text. */
  get given() {
    return given(this.fields, this.texts, this.chosen);
  }

  /** Given settings that differ from the defaults. */
  get differing() {
    const usual = Object.fromEntries(this.fields.map(({name, default: text}) => [name, text]));
    return Object.fromEntries(Object.entries(this.given).filter(([name, text]) => text !== usual[name]));
  }

  /** Null for every setting; booleans always have a value. */
  get blanks() {
    return Object.fromEntries(this.fields.filter(({kind}) => kind !== "boolean").map(({name}) => [name, null]));
  }

  /** Settings to send, as JSON values. */
  get json() {
    return toJson(this.fields, this.given);
  }

  /** @throws {ApiError} if a required box is empty */
  requireFilled() {
    const fields = Object.fromEntries(missing(this.given).filter((name) => !this.form.elements[name].readOnly).map((name) => [name, `${name} must be given.`]));
    if (Object.keys(fields).length > 0) throw new ApiError(422, {fields});
  }

  /** Fill the form with settings. @param {Record<string, string>} texts */
  fill(texts) {
    if (texts.model !== undefined) this.offer("model", [texts.model]);
    if (texts.accountant !== undefined) this.offer("accountant", null);
    for (const [name, members] of Object.entries(this.switches)) {
      const member = members.find((one) => texts[one] !== undefined);
      if (member) this.form.elements[name].value = member;
    }
    for (const {name, switch: of} of this.fields) {
      if (texts[name] !== undefined || of === "") this.form.elements[name].value = texts[name] ?? "";
      if (this.sliders[name]) this.moveSlider(name);
    }
    this.onChange();
  }

  /** Set the value of one box. */
  set(name, value, {quietly = false} = {}) {
    this.form.elements[name].value = asTyped(value);
    if (this.sliders[name]) this.moveSlider(name);
    if (!quietly) this.onChange();
  }

  /**
   * Limit a choice to these options, null: all; the chosen option stays if it is available.
   * @param {string} name of the setting
   * @param {string[] | null} values
   */
  offer(name, values) {
    const select = this.form.elements[name];
    const {choices} = this.fields.find((field) => field.name === name);
    const offered = values ?? Object.keys(choices);
    const before = select.value;
    select.replaceChildren(...offered.map((value) => new Option(choices[value] ?? value, value)));
    if (offered.includes(before)) select.value = before;
  }

  /** Show these errors and clear all others. @param {Record<string, string>} errors by field */
  showErrors(errors) {
    for (const field of this.fields) this.showError(field, errors[field.name] ?? "");
    const wrong = this.fields.filter(({name}) => errors[name]);
    this.listErrors(wrong);
    for (const {name} of wrong) this.form.querySelector(`[data-field="${name}"]`).closest("details")?.setAttribute("open", "");
  }

  /** List the invalid fields in place of the answer, with a link to each box. */
  listErrors(wrong) {
    const links = wrong.flatMap(({name, label}, i) => {
      const link = document.createElement("a");
      link.href = `#${name}`;
      link.textContent = label;
      link.addEventListener("click", (event) => {
        event.preventDefault(); // the fragment of the address identifies the run
        document.getElementById(name).focus();
      });
      return i === 0 ? [link] : [", ", link];
    });
    this.form.querySelector("[data-to-correct]").replaceChildren("To correct: ", ...links, ".");
  }

  showError({name}, message) {
    const box = this.form.querySelector(`[data-field="${name}"]`);
    const line = document.getElementById(`${name}-error`);
    box.classList.toggle("invalid", message !== "");
    line.textContent = labelled(this.fields, message);
    line.hidden = message === "";
    for (const input of box.querySelectorAll("[aria-describedby]")) {
      if (message) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }

  /** Focus the first invalid field. */
  focusError() {
    this.form.querySelector(".invalid [aria-invalid]")?.focus();
  }
}

/** True for inputs that the visitor types into. */
function isBox(input) {
  return input.matches("input:not([type])");
}

/** Number as text: 0.1 as "0.1", 1e-5 as "1e-5". */
export function asTyped(value) {
  return typeof value === "number" && value !== 0 && Math.abs(value) < 1e-3
    ? value.toExponential().replace("e+", "e")
    : String(value);
}

const OPEN = "all-settings"; // key of the browser's storage

/** The fold of the settings that are not always in view; the browser remembers if it is open. */
export class AllSettings {
  /** @param {HTMLDetailsElement} details @param {import("./query.js").Field[]} fields */
  constructor(details, fields) {
    this.details = details;
    this.fields = fields.filter(({basic}) => !basic);
    this.words = details.querySelector("[data-unusual]");
    if (stored() === "true") details.open = true;
    details.querySelector("summary").addEventListener("click", () => store(String(!details.open)));
  }

  /** Count the settings that differ from their defaults. @param {Record<string, string>} texts @param {Record<string, string>} chosen */
  update(texts, chosen) {
    this.words.textContent = unusual(this.fields, texts, chosen);
  }
}

/** Pure: the server writes the same text: `_unusual` of web/pages/train.py. */
export function unusual(fields, texts, chosen) {
  const counted = fields.filter((field) => field.switch === "" || chosen[field.switch] === field.name);
  const changed = counted.filter(({name, default: usual}) => texts[name] !== usual).length;
  const usual = `${counted.length - changed} as usual`;
  return changed ? `${changed} changed, ${usual}` : usual;
}

function stored() {
  try {
    return localStorage.getItem(OPEN);
  } catch {
    return null; // the browser stores nothing for this site
  }
}

function store(value) {
  try {
    localStorage.setItem(OPEN, value);
  } catch {
    // the browser stores nothing for this site
  }
}
