/**
 * The lab of private linear regression: settings go to the server, which computes and
 * draws; what comes back takes the place of the old results. Everything also works
 * without this script, a page at a time.
 */

import {DescentRun} from "../lib/descent_run.js";
import {toQuery} from "../lib/query.js";
import {SettingsForm} from "../lib/settings_form.js";

const SETTLE_MS = 90;
const RETRY_MS = 2000;

const page = document.querySelector("[data-lab]");
const column = page.querySelector("[data-results-column]");
const data = JSON.parse(document.getElementById("page-data").textContent);
const announce = page.querySelector("[data-announce]");
const form = new SettingsForm(page.querySelector("[data-settings]"), {fields: data.fields, switches: {}}, changed);
/** @type {DescentRun | null} made when there is first something to run */
let launcher = null;
let settle = null;
let asking = null;

for (const link of page.querySelectorAll("[data-preset]")) link.addEventListener("click", choosePreset);
page.querySelector("[data-new-seed]").addEventListener("click", () => form.set("seed", Math.floor(Math.random() * 2 ** 31)));
column.addEventListener("click", (event) => {
  if (!event.target.matches("[data-wait]")) return;
  event.preventDefault();
  show({wait: true});
});
showFaults();
offerRun(results());
await waitIfLong();

function changed() {
  clearTimeout(settle);
  settle = setTimeout(() => show(), SETTLE_MS);
}

/** Only what differs from the defaults stands in the address. */
function settings() {
  const usual = Object.fromEntries(data.fields.map(({name, default: text}) => [name, text]));
  return Object.fromEntries(Object.entries(form.given).filter(([name, text]) => text !== usual[name]));
}

/** Ask for the results of the settings; an older question is dropped. @returns whether they came */
async function show({wait = false} = {}) {
  asking?.abort();
  asking = new AbortController();
  const {signal} = asking;
  const query = settings();
  const address = toQuery(query);
  history.replaceState(null, "", address ? `?${address}` : location.pathname);
  markPreset(query);
  results().setAttribute("aria-busy", "true");
  const fresh = await fetchResults(toQuery(wait ? {...query, wait: "1"} : query), signal);
  if (signal.aborted) return false;
  if (fresh) put(fresh);
  else tellFailure();
  if (fresh && !wait) await waitIfLong();
  return fresh !== null;
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

/** Replace the results; tables that were open stay open, and the focus where it was. */
function put(fresh) {
  const old = results();
  for (const table of old.querySelectorAll(".chart details[open]")) {
    fresh.querySelector(`#${table.closest(".chart").id} details`)?.setAttribute("open", "");
  }
  offerRun(fresh);
  const focused = old.contains(document.activeElement) ? document.activeElement.closest("[id]")?.id : null;
  old.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.querySelector("summary, a")?.focus();
  showFaults();
  announce.textContent = fresh.querySelector("h3")?.textContent ?? "A setting has to be corrected.";
}

/** A descent too long for an instant answer is asked for on its own. */
async function waitIfLong() {
  if (!results().querySelector("[data-wait]")) return;
  const came = await show({wait: true});
  if (came && results().querySelector("[data-wait]")) settle = setTimeout(waitIfLong, RETRY_MS); // the server was busy
}

/** The panel that launches the descent stays the same: a run may be going on in it. */
function offerRun(shown) {
  const panel = shown.querySelector("[data-descent-run]");
  if (!panel) return;
  launcher ??= new DescentRun(panel);
  launcher.offer(JSON.parse(panel.dataset.settings));
  if (panel !== launcher.root) panel.replaceWith(launcher.root);
}

function showFaults() {
  form.showErrors(JSON.parse(results().dataset.errors));
  page.querySelector("[data-to-correct]").hidden = results().dataset.errors === "{}";
}

function tellFailure() {
  results().setAttribute("aria-busy", "false");
  announce.textContent = "The server did not answer; the charts are those of before.";
}

function results() {
  return column.querySelector("[data-results]");
}

function choosePreset(event) {
  event.preventDefault();
  const chosen = JSON.parse(event.currentTarget.dataset.preset);
  for (const {name, default: usual} of data.fields) form.set(name, chosen[name] ?? usual, {quietly: true});
  show();
}

function markPreset(query) {
  const address = JSON.stringify(Object.entries(query).sort());
  for (const link of page.querySelectorAll("[data-preset]")) {
    const same = JSON.stringify(Object.entries(JSON.parse(link.dataset.preset)).sort()) === address;
    if (same) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
