/** The trainer's dialog for a blind search: it asks the server for the price, and starts the search. */

import {given, jsonValue, suggestions, toJson, toQuery} from "../forms/query.js";
import {ApiError, Newest, getJson, postJson} from "../lib/api.js";
import {exponential} from "../lib/format.js";

const LISTS = ["learning_rate_values", "max_grad_norm_values", "momentum_values"];
const MEAN = "mean_trials";

const data = JSON.parse(document.getElementById("page-data").textContent);
const settings = document.querySelector("[data-settings]");
const dialog = document.querySelector("[data-search-dialog]");
const form = dialog.querySelector("[data-search-form]");
const opener = document.querySelector("[data-search-open]");
const part = (name) => dialog.querySelector(`[data-${name}]`);
const newest = new Newest(dialog);

let starting = false;

opener.addEventListener("click", open);
form.addEventListener("input", () => askPrice({typing: true}));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  launch();
});
part("search-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => opener.focus());

function open() {
  const {learning_rate: rate} = Object.fromEntries(data.fields.map((field) => [field.name, field]));
  form.elements[LISTS[0]].value = suggestions(rate, settings.elements.learning_rate.value.trim()).join(" ");
  showError(null);
  dialog.showModal();
  form.elements[LISTS[0]].focus();
  askPrice();
}

/** The settings as they stand, as text: those of a trial. */
function trial() {
  const texts = Object.fromEntries(data.fields.map(({name}) => [name, settings.elements[name].value.trim()]));
  const chosen = Object.fromEntries(Object.keys(data.switches).map((name) => [name, settings.elements[name].value]));
  return given(data.fields, texts, chosen);
}

/** What is searched, as text; an empty list is left out. */
function searched() {
  const typed = LISTS.map((name) => [name, form.elements[name].value.trim()]);
  return Object.fromEntries(typed.filter(([, text]) => text !== ""));
}

function askPrice(options) {
  newest.ask(async (signal) => {
    if (Object.keys(searched()).length === 0) return nothingTyped();
    try {
      const query = {...trial(), ...searched(), [MEAN]: form.elements[MEAN].value.trim()};
      showPrice(await getJson(`/api/v1/privacy/search?${toQuery(query)}`, {signal}));
      showError(null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      showPrice(null);
      showError(error);
    }
  }, options);
}

/** The server would take its own list where it is told none. */
function nothingTyped() {
  showPrice(null);
  showError(new ApiError(0, {message: "Give two or more values of a setting.", field: LISTS[0]}));
}

function showPrice(price) {
  for (const name of ["winner", "trial", "all_shown"]) {
    dialog.querySelector(`[data-price="${name}"]`).textContent = price?.[name]?.epsilon_text ?? "–";
    const badge = dialog.querySelector(`[data-status-of="${name}"]`);
    if (!badge) continue;
    badge.hidden = !price?.[name];
    badge.className = `badge ${price?.[name]?.status ?? "exact"}`;
    badge.textContent = price?.[name]?.status ?? "exact";
  }
  dialog.querySelector('[data-price="delta"]').textContent = price ? ` at δ = ${exponential(price.winner.delta)}, add or remove one record, Poisson sampling` : "";
  dialog.querySelector('[data-price="shown"]').textContent = price ? price.shown : "All";
  part("price-words").textContent = price ? `${price.trainings} trainings, whatever number is drawn. No trial at all: at most ${price.none_percent} %.` : "";
}

async function launch() {
  if (starting) return; // a second press while the first is on its way
  starting = true;
  showError(null);
  try {
    const lists = {learning_rate_values: null, ...searched()};
    const body = {kind: "search", ...toJson(data.fields, trial()), ...lists, [MEAN]: jsonValue("number", form.elements[MEAN].value.trim())};
    const run = await postJson("/api/v1/runs", body);
    dialog.close();
    location.assign(run.links.page);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showError(error);
    (form.elements[error.field] ?? form.elements[LISTS[0]]).focus();
  } finally {
    starting = false;
  }
}

/** A message at its place, with labels for the names of settings. */
function showError(error) {
  const line = part("search-error");
  line.textContent = error ? inWords(Object.values(error.fields)[0] ?? error.message) : "";
  line.hidden = !error;
  for (const name of [...LISTS, MEAN]) {
    if (error && (error.field === name || name in error.fields)) form.elements[name].setAttribute("aria-invalid", "true");
    else form.elements[name].removeAttribute("aria-invalid");
  }
}

function inWords(message) {
  const boxes = [...LISTS, MEAN].map((name) => ({name, label: dialog.querySelector(`label[for="search-${name}"]`).textContent}));
  const named = [...boxes, ...data.fields.filter(({name}) => name.includes("_"))];
  const text = named.reduce((words, {name, label}) => words.replaceAll(new RegExp(`\\b${name}\\b`, "g"), label.toLowerCase()), message);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
