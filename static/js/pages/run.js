/** One run: followed while it trains, replayed once it has ended. */

import {Bench} from "../charts/bench.js";
import {chartPlan} from "../charts/plan.js";
import {ApiError, deleteJson, getJson} from "../lib/api.js";
import {LiveRun} from "../lib/live_run.js";
import {terms} from "../lib/plan_panel.js";
import {Replay} from "../lib/replay.js";
import {RunLog} from "../lib/run_log.js";
import {FINAL_STATES} from "../lib/sse.js";
import {clock, showTimes} from "../lib/times.js";

const PAGE = 5000;

const page = document.querySelector("[data-run-page]");
const {run, config, plan, facts} = JSON.parse(document.getElementById("page-data").textContent);
const part = (name) => page.querySelector(`[data-${name}]`);
const bench = new Bench(part("bench"));

start();

function start() {
  showTimes(page);
  part("delete")?.addEventListener("click", forget);
  if (FINAL_STATES.has(run.state)) loadAndReplay();
  else follow();
}

async function loadAndReplay() {
  const log = new RunLog();
  let last = 0;
  do {
    const answer = await getJson(`${run.links.log}?after=${log.seq}&limit=${PAGE}`);
    for (const event of answer.events) log.add(event);
    last = answer.events.length ? answer.last_seq : log.seq;
  } while (log.seq < last);
  replay(log);
}

function replay(log) {
  bench.show({
    log,
    whole: log,
    plan: chartPlan(plan, config, facts),
    title: `Run of ${clock(run.created_at)}`,
    file: `run-${run.id.slice(0, 6)}`,
    terms: terms(plan, facts),
    about: {replaying: true},
  });
  if (log.latest.step > 0) new Replay(part("replay"), log, (past) => bench.update({log: past}));
}

function follow() {
  const live = new LiveRun({...run, config}, plan, facts, bench, () => moved(live));
  addEventListener("pagehide", () => live.pause());
  addEventListener("pageshow", (event) => event.persisted && live.resume());
  part("stop")?.addEventListener("click", () => stop(live));
  live.resume();
}

function moved({log}) {
  if (!log.isFinal) return;
  part("stop")?.remove();
  replay(log);
}

async function stop(live) {
  if (live.stopping) return;
  await live.stop().catch(showError);
}

async function forget() {
  try {
    await deleteJson(run.links.self);
    location.assign(part("delete").dataset.delete);
  } catch (error) {
    showError(error);
  }
}

function showError(error) {
  if (!(error instanceof ApiError)) throw error;
  const line = part("run-error");
  line.textContent = error.message;
  line.hidden = false;
}
