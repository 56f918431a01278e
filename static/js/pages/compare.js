/** Comparison of up to eight trainings on linked charts, with a shared selection and a shared cursor. */

import {pointsOf} from "../charts/runs_axes.js";
import {filled, pointAt} from "../charts/runs_chart.js";
import {RunsFigure} from "../charts/runs_figure.js";
import {decimals, decimalsUp, percent, significant} from "../lib/format.js";
import {openPage} from "../lib/page.js";
import {ComparedRuns} from "../runs/compare/compared_runs.js";
import {showPins, wirePins} from "../runs/ghosts/ghosts.js";
import {FINAL_STATES} from "../runs/log/run_log.js";

const {page, data, part, parts} = openPage("compare-page");
const axes = Object.fromEntries(data.charts.accuracy.axes.map((axis) => [axis.field, axis]));
const view = {axis: axes.epsilon, chosen: null, hovered: null, share: 1, hoverX: null};
const note = () => data.runs.map(({label, short}) => `${label}: ${short}`);
const charts = [...parts("chart")].map((figure) => new RunsFigure(figure, data.charts[figure.dataset.chart], {file: `compare-${figure.dataset.chart}`, note, onHover: hover}));
const runs = new ComparedRuns(data.runs, {onPoints: () => paintSoon(), onState: () => refresh()});

wirePins(page, say);
if (data.runs.every((run) => !run.private)) chooseAxis("step");
for (const input of page.querySelectorAll('input[name="axis"]')) {
  input.addEventListener("change", () => {
    chooseAxis(input.value);
    paintSoon();
  });
}
part("cursor").addEventListener("input", ({target}) => {
  view.share = Number(target.value) / Number(target.max);
  view.hoverX = null;
  paintSoon();
});
for (const button of parts("light")) {
  const letter = button.dataset.light;
  button.addEventListener("click", () => choose(view.chosen === letter ? null : letter));
  for (const [event, value] of [["pointerenter", letter], ["focus", letter], ["pointerleave", null], ["blur", null]]) {
    button.addEventListener(event, () => {
      view.hovered = value;
      paintSoon();
    });
  }
}
paintSoon();

function chooseAxis(axis) {
  view.axis = axes[axis];
  view.hoverX = null;
  page.querySelector(`input[name="axis"][value="${axis}"]`).checked = true;
}

function choose(letter) {
  view.chosen = letter;
  paintSoon();
}

function hover(letter, x) {
  view.hovered = letter;
  view.hoverX = x;
  paintSoon();
}

/** Highlighted run: the hovered one, else the chosen one, else the most accurate one on the axis. */
function litRun() {
  if (view.hovered ?? view.chosen) return view.hovered ?? view.chosen;
  const last = (run) => pointsOf(run, data.charts.accuracy, view.axis).at(-1)?.y ?? -1;
  return [...runs.runs].sort((a, b) => last(b) - last(a))[0].key;
}

function paintSoon() {
  cancelAnimationFrame(view.frame);
  view.frame = requestAnimationFrame(paint);
}

function paint() {
  const lit = litRun();
  const cursor = cursorAt();
  for (const chart of charts) chart.update({runs: runs.runs, axis: view.axis, lit, cursor});
  light(lit);
  read(cursor);
  fillLive();
}

/** Cursor position in units of the axis; null at the end of the axis. */
function cursorAt() {
  if (view.hoverX !== null) return view.hoverX;
  if (view.share >= 1) return null;
  const {range: [start, end], log} = charts[0].frame?.axes.x ?? {range: [0, 1], log: false};
  return log ? start * (end / start) ** view.share : start + (end - start) * view.share;
}

function light(lit) {
  for (const element of page.querySelectorAll("[data-of]")) element.classList.toggle("lit", element.dataset.of === lit);
  for (const button of parts("light")) button.setAttribute("aria-pressed", String(button.dataset.light === view.chosen));
}

function read(cursor) {
  const words = cursor === null ? "the end" : written(cursor, view.axis);
  part("read").textContent = words;
  part("read-row").textContent = words;
  part("cursor").setAttribute("aria-valuetext", words);
  for (const run of runs.runs) {
    const points = pointsOf(run, data.charts.accuracy, view.axis);
    const point = cursor === null ? points.at(-1) : pointAt(points, cursor);
    page.querySelector(`[data-at][data-of="${run.key}"]`).textContent = point ? `${decimals(point.y, 1)} %` : "–";
  }
}

/** Position of the cursor, in the server's words. */
function written(x, {reads, decimals: digits}) {
  return filled(reads, {x: digits === null ? significant(x) : decimals(Math.floor(x * 10 ** digits) / 10 ** digits, digits)});
}

/** Fill in the current results of live runs. */
function fillLive() {
  for (const run of runs.runs) {
    if (FINAL_STATES.has(run.state) || !run.steps.length) continue;
    const step = run.steps.at(-1);
    const accuracy = run.evaluations.at(-1)?.test_accuracy;
    const texts = {epsilon: decimalsUp(step.epsilon), step: String(step.step), seconds: decimals(step.seconds, 1), accuracy: accuracy === undefined ? "–" : percent(accuracy)};
    for (const [name, words] of Object.entries(texts)) page.querySelector(`[data-out="${name}"][data-of="${run.key}"]`).textContent = words;
  }
}

/** Update the server's table of differences and results. */
async function refresh() {
  const response = await fetch(location.href).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  part("server").replaceChildren(...fresh.querySelector("[data-server]").childNodes);
  part("heading").textContent = fresh.querySelector("[data-heading]").textContent;
  showPins(page);
  paintSoon();
}

function say(words) {
  part("said").textContent = words;
}
