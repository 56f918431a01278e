/** Page of a group of runs: a chart of every run, shared progress, and conclusions. */

import {frame, marks} from "../charts/runs_chart.js";
import {Figure} from "../charts/figure.js";
import {RunsFigure} from "../charts/runs_figure.js";
import {GroupLog, endOf, valuesOf} from "../groups/group_log.js";
import {endAccuracies, endEpsilons, runsOf, splitBars} from "../groups/results.js";
import {conclusion, notComparable, progressWords, splitOf, spread, valueWords} from "../groups/words.js";
import {ApiError, deleteJson, getJson, postJson} from "../lib/api.js";
import {decimals, percent, showTimes} from "../lib/format.js";
import {openPage} from "../lib/page.js";
import {Chart} from "../lib/svg.js";
import {MARKS, WORDS} from "../runs/panel/base_panel.js";

const SOON_MS = 300; // between two requests while a run is running
const LATER_MS = 1500; // between two requests while all runs wait
const GROUP_MS = 1000; // between two requests for the progress
const HEIGHTS = {split: 150, against: 260};

const {page, data, part} = openPage("group");
const {purpose} = data.group;
const log = new GroupLog(data.members);
const symbol = data.setting ? data.setting.symbol || data.setting.label : "";

/** State of the page in addition to the logs. */
const store = {group: data.group, lookedAt: performance.now(), timer: 0, closed: false, said: ""};
/** @type {{show: () => void}[]} charts, and how each shows the newest values */
const charts = [];

start();

function start() {
  showTimes(page);
  if (purpose === "sweep") makeSweep();
  if (purpose === "seeds") addCurves(() => spread(log.members.map(endOf)) || data.chart.title);
  if (purpose === "twin") makeTwin();
  part("cancel")?.addEventListener("click", cancel);
  page.querySelector("[data-delete]")?.addEventListener("click", (event) => remove(event.currentTarget));
  addEventListener("pagehide", () => clearTimeout(store.timer));
  addEventListener("pageshow", (event) => event.persisted && follow());
  follow();
}

/* Charts */

/** The runs and axis of every chart of curves. */
function curves() {
  return {runs: runsOf(log.members), axis: data.chart.axes[0]};
}

function figureOf(name) {
  return page.querySelector(`[data-figure="${name}"]`);
}

function fileOf(name) {
  return `dpsgd-group-${data.group.id.slice(0, 8)}-${name}`;
}

function headline() {
  return document.querySelector("h1").textContent;
}

/** Chart of the curves of all runs. @param {() => string} title */
function addCurves(title) {
  const figure = new RunsFigure(figureOf("curves"), data.chart, {file: fileOf("curves"), title, note: () => [headline()]});
  charts.push({show: () => figure.update(curves())});
}

/** Chart with one value per run. @param {(svg: Chart) => import("../lib/svg.js").Mark[]} draw */
function addResults(name, height, draw) {
  const place = figureOf(name);
  const figure = new Figure(place, {file: fileOf(name), height: () => height, draw});
  const sub = place.querySelector(".chart-sub").textContent;
  charts.push({show: () => figure.show({conclusion: figure.heading.textContent, note: [sub, headline()], table: null})});
}

function makeSweep() {
  for (const value of valuesOf(log.members)) {
    const item = document.createElement("li");
    const head = Object.assign(document.createElement("h3"), {textContent: `${symbol} = ${value.value}`});
    const words = Object.assign(document.createElement("p"), {className: "small muted num"});
    const place = document.createElement("div");
    item.append(head, words, place);
    part("multiples").append(item);
    const draw = () => svg.width && svg.show(marks(frame({...curves(), chart: data.chart, lit: value.key}, svg)));
    const svg = new Chart(place, {height: data.chart.height, label: `Accuracy over steps at ${symbol} = ${value.value}`, draw});
    charts.push({
      show: () => {
        words.textContent = valueWords(value, epsilonText(value.members[0].id));
        draw();
      },
    });
  }
  addResults("accuracy", HEIGHTS.against, (svg) => endAccuracies(svg, log.members, data));
  addResults("epsilon", HEIGHTS.against, (svg) => endEpsilons(svg, log.members, data));
}

/** Spent ε of a run, as the server writes it. */
function epsilonText(id) {
  return store.group.runs.find((run) => run.id === id)?.privacy?.epsilon_text ?? "–";
}

/** Accuracy lost to clipping and noise; null if unknown or not comparable. */
function split() {
  const ends = log.members.map(endOf);
  const shares = splitOf(ends);
  return shares && notComparable(log.members, ends) ? null : shares;
}

function makeTwin() {
  addCurves(() => data.chart.title);
  addResults("split", HEIGHTS.split, (svg) => splitBars(svg, split()));
}

/* Events */

async function follow() {
  clearTimeout(store.timer);
  try {
    const {events, has_ended: over} = await getJson(`${data.group.links.log}?after=${log.last}`);
    for (const event of events) log.add(event);
    const moved = events.some(({kind}) => kind === "state");
    const due = performance.now() - store.lookedAt > GROUP_MS;
    if (moved || due || store.group.has_ended !== over) await look();
    show();
    if (store.group.has_ended && events.length === 0) return;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404) return showError(error); // the group was deleted in another tab
  }
  const goes = log.members.some((member) => member.log.state === "running");
  store.timer = setTimeout(follow, goes ? SOON_MS : LATER_MS);
}

async function look() {
  store.group = await getJson(data.group.links.self);
  store.lookedAt = performance.now();
}

function show() {
  const {group} = store;
  part("progress").value = group.share;
  part("progress-words").textContent = progressWords(group);
  const button = part("cancel");
  if (button && group.has_ended) {
    if (document.activeElement === button) document.querySelector("h1").focus();
    button.hidden = true;
  }
  const said = conclusion(purpose, log.members, data.setting);
  part("conclusion").textContent = said;
  if (purpose === "twin") page.querySelector('[data-figure="split"]').hidden = group.has_ended && !split();
  if (group.has_ended && store.said !== said) part("announce").textContent = `${progressWords(group)}. ${said}.`;
  store.said = group.has_ended ? said : "";
  for (const run of group.runs) showRun(run);
  for (const chart of charts) chart.show();
}

function showRun(run) {
  const member = log.byId.get(run.id);
  if (!member) return; // restored after this page was loaded
  const row = page.querySelector(`[data-member="${CSS.escape(run.id)}"]`);
  const write = (name, text) => (row.querySelector(`[data-cell="${name}"]`).textContent = text);
  write("epsilon", epsilonText(run.id));
  write("accuracy", member.log.accuracy === null ? "–" : percent(member.log.accuracy));
  write("seconds", run.summary.seconds === undefined ? "–" : decimals(run.summary.seconds, 1));
  const state = row.querySelector(".state");
  state.className = `state ${MARKS[run.state] ?? ""}`;
  state.textContent = WORDS[run.state];
}

/* Actions */

async function cancel() {
  showError(null);
  try {
    store.group = await postJson(data.group.links.cancel, {});
    part("progress-words").textContent = "Stopping…";
    follow();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showError(error);
  }
}

async function remove(button) {
  try {
    await deleteJson(data.group.links.self);
    location.assign(button.dataset.delete);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showError(error);
  }
}

function showError(error) {
  const line = part("group-error");
  line.textContent = error?.message ?? "";
  line.hidden = !error;
}
