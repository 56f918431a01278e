/** Budget planner: four numbers are fixed, the server solves for the fifth. */

import {batchesConclusion, conclusion, heightOf, marks, table, under} from "./budget_map.js";
import {Figure} from "../../../../static/js/charts/figure.js";
import {Newest, getJson} from "../../../../static/js/lib/api.js";
import {integer, roundUp, significant} from "../../../../static/js/lib/format.js";
import {Painter, openPage, tableRow} from "../../../../static/js/lib/page.js";
import {toQuery} from "../../../../static/js/forms/query.js";
import {SettingsForm, asTyped} from "../../../../static/js/forms/settings_form.js";

const REST_MS = 250; // pause before slower requests
const API = "/api/v1/privacy";

const {page, data, part} = openPage("planner");
const figure = new Figure(part("chart"), {file: "planner-map", height: heightOf, draw: (chart) => marks(chart, view(), pointer)});
const form = new SettingsForm(part("settings"), {fields: data.fields, switches: {}}, changed);
const newest = new Newest(page);
const painter = new Painter();
const painted = {paint};

/** State of the page; everything on it is drawn from here. */
const store = {
  /** @type {Record<string, any> | null} solved budget */
  answer: data.answer,
  /** @type {Record<string, any> | null} map around it */
  map: data.map,
};

/** Printed results of an answer. */
const RESULTS = {
  epsilon: ({epsilon_text}) => epsilon_text,
  odds: ({odds}) => `${odds} %`,
  run_odds: ({run_odds: odds}) => `${odds} %`,
  noise: ({noise_per_update}) => `${significant(noise_per_update)} C`,
  steps: ({steps}) => integer(steps),
  rate: ({sample_rate}) => significant(sample_rate),
  delta: ({delta}) => asTyped(Number(delta.toPrecision(4))),
};

/** Text of the solved number in its box. */
const SOLVED = {
  epsilon: ({budget}) => roundUp(budget, 4),
  delta: ({delta}) => asTyped(Number(delta.toPrecision(4))),
  noise_multiplier: ({noise_multiplier}) => roundUp(noise_multiplier, 4),
  expected_batch_size: ({expected_batch_size}) => String(expected_batch_size),
  epochs: ({epochs}) => String(Number(epochs.toPrecision(4))),
};

let rest = null;
let resting = null;
/** @type {[number, number] | null} position of the pointer on the map, in pixels */
let pointer = null;

start();

function start() {
  for (const button of page.querySelectorAll("[data-size]")) {
    button.addEventListener("click", () => form.set("sample_size", Number(button.dataset.size)));
  }
  figure.plot.addEventListener("pointerdown", walkStart);
  figure.plot.addEventListener("pointermove", (event) => point(figure.chart.pixel(event)));
  figure.plot.addEventListener("pointerleave", () => point(null));
  form.lock(Object.keys(SOLVED), solved());
  if (data.answer) show(data.answer);
  askRest({isFirst: data.map !== null});
}

function solved() {
  return form.form.elements.solve.value || "noise_multiplier";
}

function changed(input = null, options = {}) {
  if (input?.name === "solve") form.lock(Object.keys(SOLVED), solved());
  newest.ask(ask, options);
}

function query() {
  return toQuery({solve: solved(), ...form.given});
}

/** Solve for the number that is not fixed. */
async function ask(signal) {
  try {
    form.requireFilled();
    const answer = await getJson(`${API}/budget?${query()}`, {signal});
    form.showErrors({});
    part("to-correct").hidden = true;
    show(answer);
    history.replaceState(null, "", `?${query()}`);
    clearTimeout(rest);
    rest = setTimeout(() => askRest(), store.map ? REST_MS : 0);
  } catch (error) {
    if (error.name !== "AbortError") refuse(error);
  }
}

/** Request the map and the table of batch sizes, which take longer, after a pause. */
async function askRest({isFirst = false} = {}) {
  resting?.abort();
  resting = new AbortController();
  const {signal} = resting;
  const {sample_size, expected_batch_size, delta, epsilon} = form.given;
  try {
    if (!isFirst) store.map = await getJson(`${API}/budget_map?${toQuery({sample_size, expected_batch_size, delta, epsilon})}`, {signal});
    painter.request(painted, {now: true});
    const {rows} = await getJson(`${API}/batch_sizes?${query()}`, {signal});
    showBatches(rows);
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 422) refuse(error);
  }
}

function show(answer) {
  store.answer = answer;
  const name = answer.solve;
  form.form.elements[name].value = SOLVED[name](answer);
  form.moveSlider(name);
  for (const cell of page.querySelectorAll("[data-result]")) cell.textContent = RESULTS[cell.dataset.result](answer);
  const claim = part("claim");
  claim.className = `badge ${answer.status}`;
  claim.textContent = answer.status;
  claim.hidden = false;
  part("train").hidden = answer.train === "";
  if (answer.train) part("train").href = answer.train;
  part("remark").textContent = answer.remark;
  painter.request(painted, {now: true});
}

function refuse(error) {
  store.answer = null;
  form.showErrors(error.fields ?? {});
  part("to-correct").hidden = false;
  part("train").hidden = part("claim").hidden = true;
  if (Object.keys(error.fields ?? {}).length === 0) part("to-correct").textContent = error.message;
  for (const cell of page.querySelectorAll("[data-result]")) cell.textContent = "–";
}

function showBatches(rows) {
  if (rows.length > 1) part("batch-heading").textContent = batchesConclusion(rows);
  const lines = rows.map((row) =>
    tableRow([integer(row.expected_batch_size)], [integer(row.steps), roundUp(row.noise_multiplier, 3), significant(row.noise_per_update)]),
  );
  part("batches").replaceChildren(...lines);
}

/* Map */

function view() {
  const {answer, map} = store;
  const point = answer && {epochs: answer.epochs, noise_multiplier: answer.noise_multiplier, epsilon_text: answer.epsilon_text};
  return {...map, point, ticks: data.ticks};
}

function paint() {
  if (!store.map) return;
  const now = view();
  figure.show({
    conclusion: conclusion(now),
    table: () => table(now),
    note: `δ = ${form.texts.delta}, batch ${form.texts.expected_batch_size} of ${form.texts.sample_size}; add or remove one record, Poisson sampling`,
  });
}

/** Label the contour at the pointer. */
function point(place) {
  pointer = place;
  painter.request(painted, {now: true});
}

/** Drag the planned run; if epochs or noise are solved for, it moves along the budget's contour. */
function walkStart(event) {
  if (!store.map || event.button !== 0) return;
  const go = (moved) => {
    const plan = under(figure.chart, view(), figure.chart.pixel(moved));
    for (const name of ["epochs", "noise_multiplier"]) if (name !== solved()) form.set(name, plan[name], {quietly: true});
    changed();
  };
  const stop = () => {
    removeEventListener("pointermove", go);
    removeEventListener("pointerup", stop);
    removeEventListener("pointercancel", stop);
  };
  addEventListener("pointermove", go);
  addEventListener("pointerup", stop);
  addEventListener("pointercancel", stop);
  go(event);
}
