/** Page of a group of runs: a chart of every run, shared progress, and conclusions. */

import {GroupLog, endOf} from "../groups/group_log.js";
import {commonRange, endAccuracies, endEpsilons, multiple, seeds, splitBars, twins} from "../groups/drawings.js";
import {conclusion, memberWords, notComparable, progressWords, splitOf, spread} from "../groups/words.js";
import {ApiError, deleteJson, getJson, postJson} from "../lib/api.js";
import {percent, showTimes} from "../lib/format.js";
import {openPage} from "../lib/page.js";
import {savePicture} from "../lib/picture.js";
import {Chart} from "../lib/svg.js";
import {MARKS, WORDS} from "../runs/panel/base_panel.js";

const SOON_MS = 300; // between two requests while a run is running
const LATER_MS = 1500; // between two requests while all runs wait
const GROUP_MS = 1000; // between two requests for the progress
const HEIGHTS = {multiple: 132, curves: 340, split: 150, against: 260};

const {page, data, part} = openPage("group");
const {purpose} = data.group;
const log = new GroupLog(data.members);
const symbol = data.setting ? data.setting.symbol || data.setting.label : "";

/** State of the page in addition to the logs. */
const store = {group: data.group, lookedAt: performance.now(), timer: 0, closed: false, said: ""};
/** @type {{chart: Chart, draw: (chart: Chart) => import("../lib/svg.js").Mark[], title?: () => string}[]} */
const charts = [];

start();

function start() {
  showTimes(page);
  if (purpose === "sweep") makeSweep();
  if (purpose === "seeds") addFigure("curves", HEIGHTS.curves, "Accuracy of all seeds over steps", (chart) => seeds(chart, log.members, view()), () => spread(log.members.map(endOf)) || "Accuracy on the way");
  if (purpose === "twin") makeTwin();
  part("cancel")?.addEventListener("click", cancel);
  page.querySelector("[data-delete]")?.addEventListener("click", (event) => remove(event.currentTarget));
  addEventListener("pagehide", () => clearTimeout(store.timer));
  addEventListener("pageshow", (event) => event.persisted && follow());
  follow();
}

function view() {
  const {floor: accuracy_floor, ceiling: accuracy_ceiling} = data;
  return {range: commonRange(log.members, {accuracy_floor, accuracy_ceiling}), steps: Math.max(...log.members.map(({steps}) => steps)), symbol};
}

/* Charts */

function addFigure(name, height, label, draw, title = null) {
  const figure = page.querySelector(`[data-figure="${name}"]`);
  const heading = figure.querySelector("[data-title]");
  const entry = {chart: new Chart(figure.querySelector("[data-drawing]"), {height, label, draw: () => paint(entry)}), draw, title, heading};
  charts.push(entry);
  for (const button of figure.querySelectorAll("[data-save]")) {
    const words = () => ({title: heading.textContent, note: `${document.querySelector("h1").textContent}; ${figure.querySelector(".chart-sub").textContent}`});
    button.addEventListener("click", () => savePicture(entry.chart.svg, words(), `dpsgd-group-${data.group.id.slice(0, 8)}-${name}`, button.dataset.save));
  }
}

function makeSweep() {
  for (const member of log.members) {
    const item = document.createElement("li");
    const head = Object.assign(document.createElement("h3"), {textContent: `${symbol} = ${member.value}`});
    member.line = Object.assign(document.createElement("p"), {className: "small muted num"});
    const place = document.createElement("div");
    item.append(head, member.line, place);
    part("multiples").append(item);
    const entry = {chart: new Chart(place, {height: HEIGHTS.multiple, label: `Accuracy over steps at ${symbol} = ${member.value}`, draw: () => paint(entry)}), draw: (chart) => multiple(chart, member, log.members, view())};
    charts.push(entry);
  }
  addFigure("accuracy", HEIGHTS.against, `Accuracy at the end against ${symbol}`, (chart) => endAccuracies(chart, log.members, view()));
  addFigure("epsilon", HEIGHTS.against, `ε at the end against ${symbol}`, (chart) => endEpsilons(chart, log.members, view()));
}

/** Accuracy lost to clipping and noise; null if unknown or not comparable. */
function split() {
  const ends = log.members.map(endOf);
  const shares = splitOf(ends);
  return shares && notComparable(log.members, ends) ? null : shares;
}

function makeTwin() {
  addFigure("curves", HEIGHTS.curves, "Accuracy of private, clipped only and ordinary training over steps", (chart) => twins(chart, log.members, view()));
  addFigure("split", HEIGHTS.split, "Points of accuracy that clipping takes, and that noise takes", (chart) => splitBars(chart, split()));
}

function paint(entry) {
  if (!entry.chart.width) return;
  entry.chart.show(entry.draw(entry.chart));
  if (entry.title) entry.heading.textContent = entry.title();
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
  for (const entry of charts) paint(entry);
}

function showRun(run) {
  const member = log.byId.get(run.id);
  if (!member) return; // restored after this page was loaded
  const epsilon = run.privacy?.epsilon_text ?? "–";
  if (member.line) member.line.textContent = memberWords(member, epsilon);
  const row = page.querySelector(`[data-member="${CSS.escape(run.id)}"]`);
  const write = (name, text) => (row.querySelector(`[data-cell="${name}"]`).textContent = text);
  write("epsilon", epsilon);
  write("accuracy", member.log.accuracy === null ? "–" : percent(member.log.accuracy));
  write("seconds", run.summary.seconds === undefined ? "–" : run.summary.seconds.toFixed(1));
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
