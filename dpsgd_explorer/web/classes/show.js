/** A class: every run drawn while it goes on, the roster beside it, and what its teacher does. */

import {classConclusion, classMarks} from "./class_runs.js";
import {MARGIN, nearest, pointsOf} from "../../../static/js/charts/overlay.js";
import {axesOf, nameOf} from "../../../static/js/charts/overlay_axes.js";
import {ClassLog} from "./class_log.js";
import {ApiError, deleteJson, getJson, postJson} from "../../../static/js/lib/api.js";
import {percent, roundUp, showTimes} from "../../../static/js/lib/format.js";
import {openPage} from "../../../static/js/lib/page.js";
import {savePicture} from "../../../static/js/lib/picture.js";
import {Chart} from "../../../static/js/lib/svg.js";
import {MARKS, WORDS} from "../../../static/js/runs/panel/status.js";

const SOON_MS = 1000; // while a run goes on: forty pages ask
const LATER_MS = 3000;
const ROSTER_MS = 2000; // between two looks at the roster
const HEIGHT = 380;
const GONE = 404;

const {page, data, part} = openPage("class-page");
const log = new ClassLog();
const view = {axis: "epsilon", chosen: null, hovered: null, dataset: ""};
const state = {version: 0, rosterAt: 0, timer: 0, busy: false, failed: false};
const chart = new Chart(part("plot"), {height: HEIGHT, label: "", draw: paint});
let frame = 0;

takeRoster();
wire();
follow();

function wire() {
  for (const input of page.querySelectorAll('input[name="axis"]')) input.addEventListener("change", () => change({axis: input.value}));
  part("data-set").addEventListener("change", ({target}) => change({dataset: target.value}));
  part("plot").addEventListener("pointermove", hover);
  part("plot").addEventListener("pointerleave", () => change({hovered: null}));
  for (const button of page.querySelectorAll("[data-save]")) button.addEventListener("click", () => savePicture(chart.svg, {title: part("conclusion").textContent, note: document.querySelector("h1").textContent}, "dpsgd-class", button.dataset.save));
  page.addEventListener("click", (event) => {
    for (const [name, act] of Object.entries(ACTS)) {
      const pressed = event.target.closest(`[data-${name}]`);
      if (pressed) act(pressed, event);
    }
  });
  document.addEventListener("visibilitychange", () => document.hidden || follow());
  addEventListener("pagehide", () => clearTimeout(state.timer));
  addEventListener("pageshow", (event) => event.persisted && follow());
}

const ACTS = {
  light: ({dataset: {light}}) => change({chosen: view.chosen === light ? null : light, hovered: null}),
  sort: (link, event) => {
    event.preventDefault();
    history.replaceState(null, "", link.href);
    loadRoster().then(() => part("roster").querySelector(`[data-sort="${link.dataset.sort}"]`)?.focus());
  },
  copy: ({dataset: {copy}}) => copyLink(document.getElementById(copy)),
  remove: (button) => done(() => deleteJson(button.dataset.remove), "Removed from the class."),
  post: (button) => done(() => postJson(button.dataset.post, {}), "", () => location.reload()),
  delete: (button) => done(() => deleteJson(button.dataset.delete), "", () => location.assign(button.dataset.then)),
  leave: (button) => done(() => postJson(button.dataset.leave, {}), "", () => location.assign(button.dataset.then)),
};

async function done(act, words, then = null) {
  fault("");
  try {
    await act();
    if (then) return then();
    await loadRoster();
    part("said").textContent = words;
    document.querySelector("h1").focus();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    fault(error.message);
  }
}

/** A browser that refuses the clipboard has the link marked, for the keys that copy. */
async function copyLink(box) {
  box.select();
  const copied = await navigator.clipboard?.writeText(box.value).then(() => true, () => false);
  part("said").textContent = copied ? "Copied." : "The link is marked: copy it.";
}

function fault(words) {
  part("fault").textContent = words;
  part("fault").hidden = words === "";
}

/* What comes ------------------------------------------------------------------------ */

async function follow() {
  clearTimeout(state.timer);
  if (document.hidden || state.busy) return;
  state.busy = true;
  let events = [];
  try {
    const answer = await getJson(`${data.log}?after=${log.last}`);
    events = answer.events;
    for (const event of events) log.add(event);
    if (state.failed) fault("");
    state.failed = false;
    const moved = answer.version !== state.version || events.some(({kind}) => kind === "state");
    if (moved) state.stale = true;
    if (state.stale && performance.now() - state.rosterAt > ROSTER_MS) await loadRoster();
    if (events.length) change({});
    if (answer.is_over && !log.goes && !state.stale && events.length === 0) return;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    fault(error.message);
    state.failed = true;
    if (error.status === GONE) return;
  } finally {
    state.busy = false;
  }
  const more = events.length >= data.most_events; // behind these
  state.timer = setTimeout(follow, more ? 0 : log.goes ? SOON_MS : LATER_MS);
}

async function loadRoster() {
  const response = await fetch(data.roster + location.search).catch(() => null);
  state.rosterAt = performance.now();
  if (!response?.ok) return;
  const place = part("roster");
  const held = place.contains(document.activeElement) ? selectorOf(document.activeElement) : "";
  const open = [...place.querySelectorAll("details")].map((one) => one.open);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  place.replaceChildren(...fresh.body.childNodes);
  [...place.querySelectorAll("details")].forEach((one, i) => (one.open = open[i] ?? false));
  takeRoster();
  if (held) place.querySelector(held)?.focus();
  change({});
}

/** Where the keyboard is, in words that find the same place in the next roster. */
function selectorOf(held) {
  const [name] = Object.keys(held.dataset);
  if (name) return `[data-${name}="${CSS.escape(held.dataset[name])}"]`;
  return held.href ? `a[href="${CSS.escape(held.getAttribute("href"))}"]` : "";
}

function takeRoster() {
  const roster = JSON.parse(part("roster-data").textContent);
  log.take(roster.runs);
  Object.assign(state, {version: roster.version, stale: false, rosterAt: performance.now()});
  if (!log.dataSets.includes(view.dataset)) view.dataset = mostOf(log.runs) ?? "";
  part("data").hidden = log.dataSets.length < 2;
  part("data-set").replaceChildren(...log.dataSets.map((name) => new Option(name, name, false, name === view.dataset)));
  showTimes(part("roster"));
}

/** The data set that most trainings are on. */
function mostOf(runs) {
  const counts = new Map();
  for (const {drawn, dataset} of runs) if (drawn) counts.set(dataset, (counts.get(dataset) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

/* What is drawn ---------------------------------------------------------------------- */

function change(news) {
  Object.assign(view, news);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    show();
  });
}

function lines() {
  return log.lines(view.dataset).map((run) => ({...run, points: pointsOf(run, "accuracy", view.axis)}));
}

function show() {
  paint();
  const drawn = lines();
  const words = classConclusion(drawn);
  if (part("conclusion").textContent !== words) part("conclusion").textContent = words;
  chart.svg.setAttribute("aria-label", `${words}, against ${nameOf(drawn, view.axis)}. The roster below has each run.`);
  part("axis-name").textContent = nameOf(drawn, view.axis);
  const absent = drawn.filter(({points, evaluations}) => points.length === 0 && evaluations.length > 0).length;
  part("absent").textContent = absent ? `${absent} without privacy ${absent === 1 ? "has" : "have"} no ε; choose step or seconds.` : "";
  for (const run of log.runs) fillRow(run);
}

function paint() {
  if (chart.width === 0) return;
  const drawn = lines();
  const axes = axesOf(drawn, "accuracy", view.axis);
  const {width, height} = chart;
  chart.frame(axes.x.range, axes.y.range, [MARGIN.left, MARGIN.top, width - MARGIN.right, height - MARGIN.bottom], {logX: axes.x.log});
  Object.assign(view, {axes, drawn});
  chart.show(classMarks({lines: drawn, axis: view.axis, lit: view.hovered ?? view.chosen}, {x: chart.x, y: chart.y, axes, width, height}));
}

function hover(event) {
  if (!view.axes) return;
  const [x, y] = chart.pixel(event);
  const at = Math.min(Math.max(chart.x.back(x), view.axes.x.range[0]), view.axes.x.range[1]);
  const hovered = nearest(view.drawn, at, y, (value) => chart.y(view.axes.y.to(value)));
  if (hovered !== view.hovered) change({hovered});
}

/** What a run has come to; once it has ended, the server's words stand. */
function fillRow({id, private: isPrivate}) {
  const row = part("roster").querySelector(`[data-run="${CSS.escape(id)}"]`);
  if (!row) return;
  row.classList.toggle("lit", (view.hovered ?? view.chosen) === id);
  row.querySelector("[data-light]").setAttribute("aria-pressed", String(view.chosen === id));
  const run = log.of(id);
  if (run.isFinal || run.seq === 0) return;
  const write = (name, text) => (row.querySelector(`[data-cell="${name}"]`).textContent = text);
  if (run.latest.step > 0) write("epsilon", isPrivate ? roundUp(run.latest.epsilon) : "∞");
  if (run.accuracy !== null) write("accuracy", percent(run.accuracy));
  const mark = row.querySelector(".state");
  mark.className = `state ${MARKS[run.state] ?? ""}`;
  mark.textContent = WORDS[run.state];
}
