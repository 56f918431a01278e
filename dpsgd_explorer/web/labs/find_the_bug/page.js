/** Lab of planted bugs: a guess, the faulty line, the recorded audit, and new audits. */

import {ApiError, postJson} from "../../../../static/js/lib/api.js";
import {openPage} from "../../../../static/js/lib/page.js";
import {LiveRun} from "../../../../static/js/runs/log/live_run.js";
import {until} from "./bound.js";
import {Lines} from "./lines.js";
import {BoundPanel} from "./panel.js";
import {ANOTHER_LINE, Guesses, mark, words} from "./score.js";

const RUNS = "/api/v1/runs";
const POINT_MS = 350; // between two recorded points
const LARGEST_SEED = 2 ** 31 - 1;

const {page, data, part, parts} = openPage("bug-lab");
const {name, names, honest, recorded, plan} = data;
const guesses = new Guesses(names);
const panel = new BoundPanel(part("plate"));
const lines = new Lines(part("code"), (text) => {
  part("picked").textContent = `Picked: ${text}`;
  part("say-line").disabled = false;
});
const calm = matchMedia("(prefers-reduced-motion: reduce)");
/** @type {LiveRun | null} */
let live = null;
let player = 0;

showScore();
if (name in guesses.said) reveal(guesses.said[name]);
part("guess").addEventListener("change", () => {
  part("say").disabled = false;
});
part("guess").addEventListener("submit", (event) => {
  event.preventDefault();
  decide(part("guess").querySelector(":checked").value);
});
part("say-line").addEventListener("click", () => decide(lines.isRight ? name : ANOTHER_LINE));
part("give-up").addEventListener("click", () => decide(""));
part("forget").addEventListener("click", () => {
  guesses.forget();
  location.reload();
});
part("run").addEventListener("click", play);
part("run-live").addEventListener("click", launch);
part("stop").addEventListener("click", () => live.stop().catch(refused));
addEventListener("pagehide", () => live?.pause());
addEventListener("pageshow", (event) => event.persisted && live?.resume());

function decide(said) {
  guesses.keep(name, said);
  showScore();
  reveal(said);
  part("outcome").focus();
}

/** Show the bug and mark the visitor's guess. */
function reveal(said) {
  page.classList.add("revealed");
  for (const radio of part("guess").querySelectorAll("input")) {
    const verdict = radio.closest("li").querySelector("[data-verdict]");
    radio.disabled = true;
    radio.checked = radio.value === said;
    if (radio.value === name) Object.assign(verdict, {textContent: "This one", className: "verdict right"});
    else if (radio.value === said) Object.assign(verdict, {textContent: "Not this", className: "verdict wrong"});
  }
  for (const button of ["say", "say-line", "picked"]) part(button).closest("p").hidden = true;
  lines.close();
  part("outcome-words").textContent = said === "" ? "" : said === name ? "Right." : "Not so.";
  part("outcome").hidden = false;
}

function showScore() {
  for (const link of parts("loop")) {
    const sign = mark(guesses.said, link.dataset.loop);
    link.querySelector("[data-mark]").textContent = sign;
  }
  part("score").textContent = words(guesses.said, names, honest);
  part("forget").hidden = Object.keys(guesses.said).length === 0;
}

/** Play the recorded audit from the start. */
function play() {
  release();
  part("plate").hidden = false;
  let count = calm.matches ? recorded.points.length : 0;
  const step = () => {
    const shown = until(recorded, count);
    panel.paint(shown, plan, "Recorded.", Boolean(shown.seen_by));
    if (shown.seen_by) return;
    count += 1;
    player = setTimeout(step, POINT_MS);
  };
  step();
}

async function launch() {
  release();
  part("run-live").disabled = true;
  try {
    const seed = Math.floor(Math.random() * LARGEST_SEED);
    follow(await postJson(RUNS, {kind: "planted_bug", loop: name, seed}));
  } catch (error) {
    part("run-live").disabled = false;
    refused(error);
  }
}

function follow(answer) {
  part("plate").hidden = false;
  part("open").href = answer.links.page;
  part("open").hidden = false;
  part("stop").hidden = false;
  live = new LiveRun(answer, {plan}, panel, moved);
  live.resume();
}

function moved() {
  if (!live.log.isFinal) return;
  part("run-live").disabled = false;
  part("stop").hidden = true;
}

/** Stop drawing the previous audit; a run on the server continues. */
function release() {
  clearTimeout(player);
  live?.release();
  live = null;
  part("stop").hidden = true;
  part("run-live").disabled = false;
  panel.part("error").hidden = true;
}

function refused(error) {
  if (!(error instanceof ApiError)) throw error;
  part("plate").hidden = false;
  const line = panel.part("error");
  line.textContent = error.message;
  line.hidden = false;
}
