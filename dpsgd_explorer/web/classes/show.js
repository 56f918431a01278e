/** Page of a class: a live chart of its runs, the roster, and the teacher's actions. */

import {ClassLog} from "./class_log.js";
import {RunsFigure} from "../../../static/js/charts/runs_figure.js";
import {ApiError, deleteJson, getJson, postJson} from "../../../static/js/lib/api.js";
import {showTimes} from "../../../static/js/lib/format.js";
import {openPage} from "../../../static/js/lib/page.js";

const TRAINING_MS = 1000; // between two requests for events while a run trains
const IDLE_MS = 3000; // between two requests for events while no run trains
const ROSTER_MS = 2000; // at least, between two requests for the roster
const GONE = 404;

const {page, data, part} = openPage("class-page");
const log = new ClassLog();
const axes = Object.fromEntries(data.chart.axes.map((axis) => [axis.field, axis]));
const view = {axis: axes.epsilon, chosen: null, hovered: null, dataset: ""};
const state = {version: 0, rosterAt: 0, timer: 0, isStale: false, isBusy: false, failed: false};
const figure = new RunsFigure(part("figure"), data.chart, {file: "dpsgd-class", note: () => [document.querySelector("h1").textContent], onHover: (hovered) => hovered !== view.hovered && change({hovered})});
let frame = 0;

if ("taught" in page.dataset) rememberTeacher();
takeRoster();
wire();
change({});
follow();

/** From now on this browser shows "Teach" in the navigation; theme.js reads it. */
function rememberTeacher() {
  try {
    localStorage.setItem("teaches", "");
  } catch {
    // storage is blocked: "Teach" stays in the footer
  }
}

/* Actions */

function wire() {
  for (const input of page.querySelectorAll('input[name="axis"]')) input.addEventListener("change", () => change({axis: axes[input.value]}));
  part("data-set").addEventListener("change", ({target}) => change({dataset: target.value}));
  page.addEventListener("click", ({target}) => {
    for (const [name, act] of Object.entries(ACTIONS)) {
      const button = target.closest(`[data-${name}]`);
      if (button) act(button.dataset);
    }
  });
  document.addEventListener("visibilitychange", () => document.hidden || follow());
  addEventListener("pagehide", () => clearTimeout(state.timer));
  addEventListener("pageshow", (event) => event.persisted && follow());
}

const ACTIONS = {
  light: ({light}) => change({chosen: view.chosen === light ? null : light, hovered: null}),
  copy: ({copy}) => copyLink(document.getElementById(copy)),
  remove: ({remove}) => send(() => deleteJson(remove), removed),
  post: ({post, then}) => send(() => postJson(post, {}), () => location.assign(then)),
  delete: ({delete: address, then}) => send(() => deleteJson(address), () => location.assign(then)),
};

async function send(request, then) {
  showFault("");
  try {
    await request();
    await then();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showFault(error.message);
  }
}

async function removed() {
  await loadRoster();
  part("said").textContent = "Removed from the class.";
  document.querySelector("h1").focus();
}

/** Copy a link; if the browser denies access, the link stays selected. */
async function copyLink(box) {
  box.select();
  const isCopied = await navigator.clipboard?.writeText(box.value).then(() => true, () => false);
  part("said").textContent = isCopied ? "Copied." : "The link is selected: copy it.";
}

function showFault(words) {
  part("fault").textContent = words;
  part("fault").hidden = words === "";
}

/* Events and roster */

async function follow() {
  clearTimeout(state.timer);
  if (document.hidden || state.isBusy) return;
  state.isBusy = true;
  let events = [];
  try {
    const answer = await getJson(`${data.log}?after=${log.last}`);
    events = answer.events;
    for (const event of events) log.add(event);
    if (state.failed) showFault("");
    state.failed = false;
    state.isStale ||= answer.version !== state.version || events.some(({kind}) => kind === "state");
    if (state.isStale && performance.now() - state.rosterAt > ROSTER_MS) await loadRoster();
    if (events.length) change({});
    if (answer.is_over && !log.isRunning && !state.isStale && events.length === 0) return;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showFault(error.message);
    state.failed = true;
    if (error.status === GONE) return;
  } finally {
    state.isBusy = false;
  }
  const hasMore = events.length >= data.most_events;
  state.timer = setTimeout(follow, hasMore ? 0 : log.isRunning ? TRAINING_MS : IDLE_MS);
}

async function loadRoster() {
  const response = await fetch(data.roster).catch(() => null);
  state.rosterAt = performance.now();
  if (!response?.ok) return;
  const roster = part("roster");
  const focused = roster.contains(document.activeElement) ? selectorOf(document.activeElement) : "";
  const isOpen = roster.querySelector("details").open;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  roster.replaceChildren(...fresh.body.childNodes);
  roster.querySelector("details").open = isOpen;
  takeRoster();
  if (focused) roster.querySelector(focused)?.focus();
  change({});
}

/** Selector of the focused element, to find it in the next roster. */
function selectorOf({dataset, tagName, href}) {
  const [name] = Object.keys(dataset);
  if (name) return `[data-${name}="${CSS.escape(dataset[name])}"]`;
  return href ? `a[href="${CSS.escape(new URL(href).pathname)}"]` : tagName;
}

function takeRoster() {
  const roster = JSON.parse(part("roster-data").textContent);
  log.take(roster.runs);
  Object.assign(state, {version: roster.version, isStale: false, rosterAt: performance.now()});
  if (!log.dataSets.includes(view.dataset)) view.dataset = mostUsed(log.runs) ?? "";
  part("data").hidden = log.dataSets.length < 2;
  part("data-set").replaceChildren(...log.dataSets.map((name) => new Option(name, name, false, name === view.dataset)));
  showTimes(part("roster"));
}

/** Data set with the most drawn runs. */
function mostUsed(runs) {
  const counts = new Map();
  for (const {drawn, dataset} of runs) if (drawn) counts.set(dataset, (counts.get(dataset) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

/* Chart */

function change(news) {
  Object.assign(view, news);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    show();
  });
}

function show() {
  figure.update({runs: log.lines(view.dataset), axis: view.axis, lit: view.hovered ?? view.chosen});
  for (const row of part("roster").querySelectorAll("[data-run]")) {
    const {run} = row.dataset;
    row.classList.toggle("lit", (view.hovered ?? view.chosen) === run);
    row.querySelector("[data-light]").setAttribute("aria-pressed", String(view.chosen === run));
  }
}
