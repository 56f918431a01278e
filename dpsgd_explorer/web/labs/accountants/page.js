/** Accountant race: a run in the address, and the ε of every accountant by step. */

import {Figure} from "../../../../static/js/charts/figure.js";
import {against, conclusion, epsilonText, heightOf, marks, nearestStep, ranking, runners, table} from "../../../../static/js/charts/race.js";
import {Newest, getJson} from "../../../../static/js/lib/api.js";
import {integer} from "../../../../static/js/lib/format.js";
import {Painter, markCurrent, openPage, tableRow} from "../../../../static/js/lib/page.js";
import {sameSettings, toQuery} from "../../../../static/js/forms/query.js";
import {rateOf} from "../../../../static/js/forms/sample_rate.js";
import {SettingsForm, asTyped} from "../../../../static/js/forms/settings_form.js";

const RACE_MS = 2600;
const TICK_MS = 90;
const WHAT_IF = ["forget", "shuffle"];

const {page, data, part, parts} = openPage("race");

const figure = new Figure(part("chart"), {file: "accountants-race", height: heightOf, draw: (chart) => marks(chart, view())});
const form = new SettingsForm(part("settings"), {fields: data.fields, switches: {}}, changed);
const newest = new Newest(page);
const painter = new Painter();
const painted = {paint};
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** State of the page; everything on it is drawn from here. */
const store = {
  /** @type {Record<string, any> | null} curves of all accountants */
  answer: data.answer,
  /** index of the last drawn step */
  reached: 0,
  /** index of the step at the cursor */
  cursor: 0,
  /** true while the pointer is on the chart */
  isPointed: false,
};

let running = null;

start();

function start() {
  part("go").addEventListener("click", race);
  part("cursor").addEventListener("input", () => read(Number(part("cursor").value)));
  for (const name of WHAT_IF) part(name).addEventListener("change", () => changed());
  for (const box of [part("batch"), part("records")]) box.addEventListener("input", fromRecords);
  for (const link of parts("preset")) link.addEventListener("click", choosePreset);
  for (const name of ["pointermove", "pointerdown"]) figure.plot.addEventListener(name, point);
  figure.plot.addEventListener("pointerleave", () => {
    store.isPointed = false;
    painter.request(painted, {now: true});
  });
  showBatch();
  if (part("forget").checked || !data.answer) changed();
  else accept(data.answer);
}

/* Settings */

function changed(input = null, options = {}) {
  if (input === part("batch") || input === part("records")) return;
  if (input) showBatch();
  newest.ask(ask, options);
}

/** Show the sampling rate as a batch size for a number of records. */
function showBatch() {
  const size = Number(form.texts.sample_rate) * Number(part("records").value);
  if (!(size > 0 && Number.isFinite(size))) return;
  part("batch").value = String(Number(size.toPrecision(6)));
  tellRecords("");
}

function fromRecords() {
  const {rate, message} = rateOf(part("batch").value, part("records").value);
  tellRecords(message);
  if (rate === null) return;
  form.set("sample_rate", rate, {quietly: true});
  newest.ask(ask, {typing: true});
}

function tellRecords(message) {
  part("records-error").textContent = message;
  part("records-error").hidden = message === "";
  for (const box of [part("batch"), part("records")]) box.setAttribute("aria-invalid", String(message !== ""));
}

function choosePreset(event) {
  event.preventDefault();
  for (const name of WHAT_IF) part(name).checked = false;
  form.fill(data.surprises[event.currentTarget.dataset.preset]);
  showBatch();
  figure.plot.scrollIntoView({block: "nearest", behavior: still.matches ? "auto" : "smooth"});
}

function markPreset() {
  markCurrent(parts("preset"), (link) => sameSettings(data.surprises[link.dataset.preset], form.given));
}

/** Request the curves of all accountants for the run. */
async function ask(signal) {
  const settings = form.given;
  const wonders = WHAT_IF.filter((name) => part(name).checked).map((name) => [name, "true"]);
  history.replaceState(null, "", `?${toQuery({...settings, ...Object.fromEntries(wonders)})}`);
  const counted = part("forget").checked ? {...settings, sample_rate: "1"} : settings;
  try {
    form.requireFilled();
    const answer = await getJson(`/api/v1/privacy/curves?${toQuery({...counted, points: String(data.points)})}`, {signal});
    form.showErrors({});
    part("to-correct").hidden = true;
    accept(answer);
    await compare(settings, answer, signal);
  } catch (error) {
    if (error.name !== "AbortError") refuse(error);
  }
}

function accept(answer) {
  stop();
  store.answer = answer;
  store.reached = answer.steps.length - 1;
  part("cursor").max = String(answer.steps.length - 1);
  part("delta").textContent = asTyped(answer.delta);
  markPreset();
  read(answer.steps.length - 1);
}

function refuse(error) {
  form.showErrors(error.fields ?? {});
  part("to-correct").hidden = false;
  if (Object.keys(error.fields ?? {}).length === 0) part("to-correct").textContent = error.message;
}

/** Compare with the same run without amplification by sampling, for the tightest accountant. */
async function compare(settings, answer, signal) {
  const last = ranking({curves: answer.curves, cursor: answer.steps.length - 1});
  const best = last.find(({status}) => status === "exact") ?? last.find(({status}) => status === "bound");
  if (!best) return;
  const other = part("forget").checked ? settings.sample_rate : "1";
  const {delta, noise_multiplier, steps} = settings;
  const query = {sample_rate: other, noise_multiplier, steps, delta, accountant: best.accountant};
  const there = await getJson(`/api/v1/privacy/epsilon?${toQuery(query)}`, {signal});
  const [forgotten, counted] = part("forget").checked ? [best.epsilon.at(-1), there.value] : [there.value, best.epsilon.at(-1)];
  const factor = against(forgotten, counted);
  part("forgotten").textContent = `ε = ${epsilonText(forgotten)} instead of ${epsilonText(counted)}${factor.endsWith("×") ? `, ${factor} as much` : ""}. Still a valid bound, and a useless one.`;
}

/* Race */

function race() {
  if (!store.answer) return;
  stop();
  if (still.matches) return read(store.answer.steps.length - 1);
  const {length} = store.answer.steps;
  let position = 1;
  running = setInterval(() => {
    position = Math.min(length, position + (length * TICK_MS) / RACE_MS);
    store.reached = Math.ceil(position) - 1;
    read(store.reached);
    if (store.reached === length - 1) stop();
  }, TICK_MS);
}

function stop() {
  clearInterval(running);
  running = null;
  if (store.answer) store.reached = store.answer.steps.length - 1;
}

/** Show the values of all accountants at one step. */
function read(cursor) {
  const {answer} = store;
  store.cursor = Math.min(cursor, answer.steps.length - 1);
  const step = integer(answer.steps[store.cursor]);
  part("cursor").value = String(store.cursor);
  part("cursor").setAttribute("aria-valuetext", `step ${step}`);
  for (const cell of parts("at")) cell.textContent = step;
  showStandings();
  painter.request(painted, {now: running === null});
}

function showStandings() {
  const valid = !part("shuffle").checked;
  const rows = ranking({curves: store.answer.curves, cursor: store.cursor}).map((racer) => {
    const status = valid ? racer.status : "does not apply";
    const badge = Object.assign(document.createElement("span"), {className: `badge ${status.replaceAll(" ", "-")}`, textContent: status});
    const line = tableRow([`${racer.label} `, badge], [racer.text, valid ? racer.against : ""]);
    line.className = status === "exact" ? "truth" : "";
    return line;
  });
  part("ranking").replaceChildren(...rows);
  part("sampling").textContent = valid ? (part("forget").checked ? "every record in every step" : "Poisson sampling") : "Poisson sampling assumed, which does not hold";
  part("announce").textContent = running ? "" : words();
}

/** Accountants with values, and their styles. */
function drawn() {
  return runners(store.answer.curves, data.looks, !part("shuffle").checked);
}

function words() {
  return conclusion(store.answer.steps, drawn(), store.cursor, {valid: !part("shuffle").checked});
}

function view() {
  const {answer, reached, cursor, isPointed} = store;
  return {steps: answer.steps, runners: drawn(), reached, cursor, isPointed, hasValues: true};
}

function paint() {
  const {answer} = store;
  if (!answer) return;
  const terms = `δ = ${asTyped(answer.delta)}, add or remove one record, ${part("sampling").textContent}`;
  figure.show({
    conclusion: words(),
    table: () => table(answer, terms),
    note: `ε at ${terms}; q = ${asTyped(answer.sample_rate)}, σ = ${answer.noise_multiplier}`,
  });
}

/** Move the cursor to the step under the pointer. */
function point(event) {
  const {chart} = figure;
  if (running !== null || !store.answer || !chart.x) return;
  store.isPointed = true;
  read(nearestStep(store.answer.steps, Math.max(1, chart.point(event)[0])));
}
