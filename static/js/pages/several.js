/** Dialog of the trainer that launches several runs as a group. */

import {given, nextSeeds, suggestions, toJson, twinRates, typedValues, variations, withSeeds} from "../forms/query.js";
import {ApiError, postJson} from "../lib/api.js";

const TITLES = {sweep: "Sweep a setting", seeds: "The same settings, other seeds", twin: "Three-way twin: what clipping takes, what noise takes"};
const FIRST = "learning_rate";
const OFTEN = ["learning_rate", "max_grad_norm", "expected_batch_size", "target_epsilon", "noise_multiplier", "steps"];
const APART = new Set(["private", "seed"]); // settings with kinds of groups of their own
const HINT = "Press to try several values";

const data = JSON.parse(document.getElementById("page-data").textContent);
const settings = document.querySelector("[data-settings]");
const dialog = document.querySelector("[data-several-dialog]");
const form = dialog.querySelector("[data-several-form]");
const rates = JSON.parse(dialog.dataset.rates);
const part = (name) => dialog.querySelector(`[data-${name}]`);
const fields = Object.fromEntries(data.fields.map((field) => [field.name, field]));

let purpose = "sweep";
let starting = false;
let opener = null;

start();

function start() {
  for (const button of document.querySelectorAll("[data-several]")) button.addEventListener("click", () => open(button.dataset.several, FIRST, button));
  for (const [name, label] of labels()) {
    label.classList.add("vary");
    label.title = HINT;
    label.addEventListener("click", (event) => {
      event.preventDefault(); // a click on the label would move the focus into the box
      open("sweep", name, settings.elements[name]);
    });
  }
  form.elements.setting.addEventListener("change", suggest);
  form.addEventListener("input", () => {
    showError("");
    count();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    launch();
  });
  part("several-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => opener?.focus());
}

/** Labels of the settings that can be swept. */
function labels() {
  return sweepable().flatMap((name) => {
    const label = settings.querySelector(`label[for="${name}"]`);
    return label && !label.closest("[inert], [hidden]") ? [[name, label]] : [];
  });
}

function sweepable() {
  return data.fields.filter(({name, kind}) => !APART.has(name) && kind !== "boolean" && !settings.elements[name]?.closest?.("[inert], [hidden]")).map(({name}) => name);
}

function open(wanted, name, from) {
  [purpose, opener] = [wanted, from];
  part("several-title").textContent = TITLES[purpose];
  for (const box of form.querySelectorAll("[data-for]")) box.hidden = !box.dataset.for.split(" ").includes(purpose);
  showError("");
  if (purpose === "sweep") offer(name);
  suggest();
  dialog.showModal();
  (purpose === "twin" ? form.elements["rate-0"] : purpose === "sweep" ? form.elements.setting : form.elements.values).focus();
}

function offer(name) {
  const options = sweepable().sort((a, b) => rank(a) - rank(b)).map((name) => new Option(`${fields[name].label} ${fields[name].symbol ?? ""}`.trim(), name));
  form.elements.setting.replaceChildren(...options);
  if (options.some(({value}) => value === name)) form.elements.setting.value = name;
}

/** Place of a setting in the list: settings that change the result most first. */
function rank(name) {
  const place = OFTEN.indexOf(name);
  return place < 0 ? OFTEN.length : place;
}

function suggest() {
  const texts = current();
  if (purpose === "twin") suggestRates(texts);
  else if (purpose === "seeds") fill(nextSeeds(texts.seed), "Seeds", "Whole numbers, separated by spaces; all other settings stay the same.");
  else {
    const field = fields[form.elements.setting.value];
    const box = settings.elements[field.name];
    const offered = field.kind === "choice" ? [...box.options].map(({value}) => value) : null;
    const now = texts[field.name] ? `Now ${texts[field.name]}. ` : "";
    fill(suggestions(field, texts[field.name], offered), "Values", `${now}Values, separated by spaces; 2 to 20 runs together.`);
  }
  count();
}

function suggestRates(now) {
  const {values, help} = twinRates(rates, now);
  values.forEach((value, i) => (form.elements[`rate-${i}`].value = value));
  part("rates-help").textContent = help;
}

function fill(values, label, help) {
  form.elements.values.value = values.join(" ");
  part("values-label").textContent = label;
  part("values-help").textContent = help;
}

function count() {
  const values = typedValues(form.elements.values.value).length;
  const number = {twin: 3, seeds: values, sweep: values * seeds()}[purpose];
  part("several-start").textContent = number > 0 ? `Start ${number} run${number === 1 ? "" : "s"}` : "Start";
}

/** Number of runs of each value of a sweep. */
function seeds() {
  return Number(form.elements.seeds.value);
}

/** Current settings, as text. */
function current() {
  return Object.fromEntries(data.fields.map(({name}) => [name, settings.elements[name].value.trim()]));
}

function base() {
  const chosen = Object.fromEntries(Object.keys(data.switches).map((name) => [name, settings.elements[name].value]));
  return toJson(data.fields, given(data.fields, current(), chosen));
}

function asked() {
  if (purpose === "seeds") return {base: base(), variations: variations(fields.seed, form.elements.values.value)};
  if (purpose === "sweep") {
    const varied = variations(fields[form.elements.setting.value], form.elements.values.value);
    return {base: base(), variations: seeds() > 1 ? withSeeds(varied, current().seed, seeds()) : varied};
  }
  const [own, clipped, ordinary] = [0, 1, 2].map((i) => variations(fields.learning_rate, form.elements[`rate-${i}`].value)[0] ?? {learning_rate: ""});
  return {base: base(), variations: [own, {...clipped, noise_multiplier: 0}, {...ordinary, private: false}]};
}

async function launch() {
  if (starting) return; // a second press while the first request is running
  starting = true;
  showError("");
  try {
    const answer = await postJson("/api/v1/groups", {purpose, ...asked()});
    dialog.close();
    location.assign(answer.links.page);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const messages = Object.values(error.fields);
    showError(inWords(messages.length ? messages.join(" ") : error.message));
    (purpose === "twin" ? form.elements["rate-0"] : form.elements.values).focus();
  } finally {
    starting = false;
  }
}

/** A message with labels in place of names of settings. */
function inWords(message) {
  const named = data.fields.filter(({name}) => name.includes("_") || name === form.elements.setting.value);
  const text = named.reduce((words, {name, label}) => words.replaceAll(new RegExp(`\\b${name}\\b`, "g"), label.toLowerCase()), message);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function showError(message) {
  const line = part("several-error");
  line.textContent = message;
  line.hidden = message === "";
  for (const input of form.querySelectorAll("input")) {
    if (message) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
}
