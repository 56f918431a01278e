/** The lab of the engines: settings in the address, a recorded comparison, and one's own. */

import {EnginesPanel} from "../runs/panel/engines_panel.js";
import {ApiError, postJson} from "../lib/api.js";
import {enginesContent, madeOn, recordedContent} from "../runs/panel/engines_content.js";
import {LiveRun} from "../runs/log/live_run.js";
import {Newest} from "../lib/newest.js";
import {openPage} from "../lib/page.js";
import {toQuery} from "../forms/query.js";
import {SettingsForm} from "../forms/settings_form.js";

const RUNS = "/api/v1/runs";

const {page, data, part} = openPage("lab");
const panel = new EnginesPanel(part("panel"));
const form = new SettingsForm(part("settings"), {fields: data.fields, switches: {}}, changed);
const newest = new Newest(page);
/** @type {LiveRun | null} */
let live = null;

const recorded = recordedContent(data.recorded);
panel.show(recorded);
part("measured-on").textContent = madeOn(recorded.log, recorded.plan);
showFaults(data.errors);
part("run").addEventListener("click", launch);
part("stop").addEventListener("click", () => live.stop().catch(refused));
addEventListener("pagehide", () => live?.pause());
addEventListener("pageshow", (event) => event.persisted && live?.resume());

function changed(_input, options = {}) {
  newest.ask(check, options);
}

/** Have the settings read as a fresh page would. Only what differs from the defaults stands in the address. */
async function check(signal) {
  const address = toQuery(form.differing);
  history.replaceState(null, "", address ? `?${address}` : location.pathname);
  const response = await fetch(location.href, {signal}).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!signal.aborted) showFaults(JSON.parse(fresh.getElementById("page-data").textContent).errors);
}

async function launch() {
  showFaults({});
  busy(true);
  try {
    form.requireFilled();
    follow(await postJson(RUNS, {kind: "engines", ...form.json}));
  } catch (error) {
    busy(false);
    refused(error);
  }
}

function follow(answer) {
  const {config} = answer;
  const {label} = data.fields.find(({name}) => name === "model");
  const model = data.fields.find(({name}) => name === "model").choices[config.model] ?? label;
  const plan = {...data.recorded.plan, steps: answer.steps, last_step: answer.steps, batch_size: config.batch_size, model};
  part("recorded").hidden = true;
  part("open").href = answer.links.page;
  part("open").hidden = false;
  part("measured-on").textContent = madeOn({}, plan);
  live?.release();
  live = new LiveRun(answer, enginesContent(answer, plan), panel, () => moved(plan));
  live.resume();
}

function moved(plan) {
  if (!live.log.isFinal) return;
  busy(false);
  part("measured-on").textContent = madeOn(live.log, plan);
}

function busy(runs) {
  part("run").hidden = runs;
  part("stop").hidden = !runs;
}

function refused(error) {
  if (!(error instanceof ApiError)) throw error;
  const known = Object.keys(error.fields).filter((name) => data.fields.some((field) => field.name === name));
  if (known.length > 0) {
    showFaults(error.fields);
    form.focusError();
    return;
  }
  const line = part("run-error");
  line.textContent = error.message;
  line.hidden = false;
}

function showFaults(errors) {
  part("run-error").hidden = true;
  form.showErrors(errors);
  part("to-correct").hidden = Object.keys(errors).length === 0;
}
