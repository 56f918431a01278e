/**
 * Lab of private linear regression: the server computes and draws results, which this script inserts into the page.
 * Without it, each change loads a new page.
 */

import {DescentRun} from "./descent_run.js";
import {Newest} from "../../../../static/js/lib/api.js";
import {markCurrent, openPage} from "../../../../static/js/lib/page.js";
import {toQuery} from "../../../../static/js/forms/query.js";
import {SettingsForm} from "../../../../static/js/forms/settings_form.js";

const RETRY_MS = 2000;
const SOLVABLE = ["steps", "noise_multiplier", "target_epsilon"];

const {page, data, part, parts} = openPage("lab");
const column = part("results-column");
const announce = part("announce");
const form = new SettingsForm(part("settings"), {fields: data.fields, switches: {}}, changed);
const newest = new Newest(page);
/** @type {DescentRun | null} created for the first descent */
let launcher = null;

for (const link of parts("preset")) link.addEventListener("click", choosePreset);
part("new-seed").addEventListener("click", () => form.set("seed", Math.floor(Math.random() * 2 ** 31)));
column.addEventListener("click", (event) => {
  if (!event.target.matches("[data-wait]")) return;
  event.preventDefault();
  const section = event.target.dataset.wait;
  newest.ask(section === "regimes" ? compareRegimes : waitIfLong);
});
lock();
showFaults();
offerRun(results());
if (isLong()) newest.ask(waitIfLong);

function changed(input, options = {}) {
  if (input?.name === "solve") lock();
  newest.ask(show, options);
}

/** Settings that differ from the defaults, without the solved one. */
function settings() {
  const {[solved()]: _follows, ...query} = form.differing;
  return query;
}

function solved() {
  return form.form.elements.solve.value;
}

/** The box of the solved number is read-only. */
function lock() {
  for (const name of SOLVABLE) {
    const follows = name === solved();
    form.form.querySelector(`[data-field="${name}"]`).classList.toggle("follows", follows);
    form.form.elements[name].readOnly = follows;
    if (form.sliders[name]) form.sliders[name].disabled = follows;
  }
}

/** Fetch and show the results of the settings. */
async function show(signal) {
  const query = settings();
  const address = toQuery(query);
  history.replaceState(null, "", address ? `?${address}` : location.pathname);
  markPreset(query);
  await take(query, signal);
  waitIfLong(signal); // the other results are visible meanwhile
}

async function take(query, signal) {
  const fresh = await fetchResults(toQuery(query), signal);
  if (signal.aborted) return;
  if (fresh) put(fresh);
  else announce.textContent = "The server did not answer; the charts show the earlier results.";
}

async function fetchResults(query, signal) {
  try {
    const response = await fetch(`${location.pathname}results?${query}`, {signal});
    if (!response.ok) return null;
    const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
    return parsed.querySelector("[data-results]");
  } catch {
    return null;
  }
}

/** Replace the results; open tables stay open, and the focus is kept. */
function put(fresh) {
  const old = results();
  for (const table of old.querySelectorAll(".chart details[open]")) {
    fresh.querySelector(`#${table.closest(".chart").id} details`)?.setAttribute("open", "");
  }
  const focused = document.activeElement.closest("[data-results] > [id]");
  offerRun(fresh);
  replaceAround(launcher?.root, old, fresh);
  if (focused?.isConnected === false) document.getElementById(focused.id)?.querySelector("summary, a")?.focus();
  showFaults();
  showSolved();
  announce.textContent = results().querySelector("h3")?.textContent ?? "Correct the marked setting.";
}

/** Replace the results around the run panel: it stays in the page, because it may show a live run or have the focus. */
function replaceAround(panel, old, fresh) {
  const place = fresh.querySelector("[data-descent-run]");
  if (!place || !old.contains(panel)) {
    place?.replaceWith(panel);
    old.replaceWith(fresh);
    return;
  }
  for (const gone of [...old.children].filter((child) => child !== panel)) gone.remove();
  const children = [...fresh.children];
  panel.before(...children.slice(0, children.indexOf(place)));
  panel.after(...children.slice(children.indexOf(place) + 1));
  Object.assign(old.dataset, fresh.dataset);
}

/** Long descents need a request of their own. */
async function waitIfLong(signal) {
  if (signal.aborted || !isLong()) return;
  await take({...settings(), wait: "1"}, signal);
  if (isLong()) setTimeout(() => waitIfLong(signal), RETRY_MS); // the server was busy
}

/** Fetch the comparison of two regimes, which takes longest, when it is requested. */
async function compareRegimes(signal) {
  await take({...settings(), wait: "regimes"}, signal);
}

function isLong() {
  return results().querySelector('[data-wait="descent"]') !== null;
}

/** Pass the shown settings to the panel that launches the descent. */
function offerRun(shown) {
  const panel = shown.querySelector("[data-descent-run]");
  if (!panel) return;
  launcher ??= new DescentRun(panel);
  launcher.offer(JSON.parse(panel.dataset.settings), JSON.parse(panel.dataset.descentPlan));
}

function showFaults() {
  form.showErrors(JSON.parse(results().dataset.errors));
  part("to-correct").hidden = results().dataset.errors === "{}";
}

/** Show the solved number in its box, as rounded by the server. */
function showSolved() {
  const texts = JSON.parse(results().dataset.solved ?? "{}");
  for (const [name, text] of Object.entries(texts)) if (name === solved()) form.set(name, text, {quietly: true});
}

function results() {
  return column.querySelector("[data-results]");
}

function choosePreset(event) {
  event.preventDefault();
  const chosen = JSON.parse(event.currentTarget.dataset.preset);
  for (const {name, default: usual} of data.fields) form.set(name, chosen[name] ?? usual, {quietly: true});
  lock();
  newest.ask(show);
}

function markPreset(query) {
  const address = JSON.stringify(Object.entries(query).sort());
  const isChosen = (link) => JSON.stringify(Object.entries(JSON.parse(link.dataset.preset)).sort()) === address;
  markCurrent(parts("preset"), isChosen);
}
