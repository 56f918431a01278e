/** Trainer: settings in the address, their privacy cost, and the live run. */

import {Ghosts} from "../runs/ghosts/ghosts.js";
import {RunPanel} from "../runs/panel/run_panel.js";
import {chartPlan} from "../charts/plan.js";
import {ApiError, Newest, getJson, postJson} from "../lib/api.js";
import {bringIntoView, copyText, openPage} from "../lib/page.js";
import {roundUp, showTimes} from "../lib/format.js";
import {LayerTable, ModelCard, PlanPanel, terms} from "../forms/plan_panel.js";
import {Presets} from "../forms/presets.js";
import {asTexts, defaultsAfter, toQuery} from "../forms/query.js";
import {LiveRun} from "../runs/log/live_run.js";
import {AllSettings, SettingsForm} from "../forms/settings_form.js";
import {trainingContent} from "../runs/panel/budget.js";

const LARGEST_SEED = 2 ** 31 - 1;

const {page, data, part} = openPage("train");

const ghosts = new Ghosts(data.recorded, data.lines_behind, updateGhosts);
const panel = new RunPanel(part("panel"), (id) => ghosts.remove(id), data.lines_behind);
const planPanel = new PlanPanel(part("settings"), data.catalogue);
const form = new SettingsForm(part("settings"), data, settingsChanged);
const layers = new LayerTable(page.querySelector("[data-layers]"), (heads) => form.set("clipping_heads", heads));
const card = new ModelCard(part("model-card"), data.catalogue);
const presets = new Presets(page, data.presets, choosePreset);
const allSettings = new AllSettings(part("all-settings"), data.fields);
const newest = new Newest(page);

/** State of the page; everything on it is drawn from here. */
const store = {
  plan: data.plan, // answer for the current settings, or null
  exact: {query: toQuery(form.given), plan: data.plan}, // last exact answer, and the settings that it belongs to
  /** @type {LiveRun | null} */
  run: null,
  launching: false, // true during a launch
};

start();

function start() {
  part("run").addEventListener("click", launch);
  part("stop").addEventListener("click", stop);
  part("new-seed").addEventListener("click", () => form.set("seed", Math.floor(Math.random() * LARGEST_SEED)));
  part("copy-link").addEventListener("click", copyLink);
  addEventListener("hashchange", attachFromAddress);
  addEventListener("popstate", goBack);
  addEventListener("pagehide", () => store.run?.pause());
  addEventListener("pageshow", (event) => event.persisted && store.run?.resume());
  ghosts.readPins();
  showTimes(page);
  presets.mark(currentPreset());
  card.show(data.plan, data.config);
  if (data.plan) showSetUp();
  else panel.notReady();
  attachFromAddress();
  startFromAddress();
}

/** Query of the current settings, with the limits of a teacher's link. */
function setUp() {
  return [toQuery(form.given), data.limits].filter(Boolean).join("&");
}

/* Settings */

/** Replace the current history entry's address, and store the settings in it. */
function remember(address) {
  history.replaceState({texts: form.given}, "", address);
}

/** A preset replaces the whole form; *Back* restores the previous settings. */
function choosePreset(texts) {
  remember(location.href);
  history.pushState(null, "", location.href);
  form.fill(texts);
}

function goBack({state}) {
  if (state?.texts) form.fill(state.texts);
}

function settingsChanged(input = null, options = {}) {
  if (input?.name in data.switches) carryOver(input.value);
  if (input?.name in data.defaults_of) fillDefaults();
  if (input === null || input.name === "dataset") fitModel();
  describeChoices();
  newest.ask(ask, options);
}

/** When a switch changes between equivalent settings, carry the value over. */
function carryOver(member) {
  if (!store.plan) return;
  const {noise_multiplier, epsilon_text, steps, epochs} = store.plan;
  const values = {
    noise_multiplier: Number(roundUp(noise_multiplier, 3)),
    target_epsilon: Number(epsilon_text),
    steps,
    epochs: Number(epochs.toFixed(2)),
  };
  if (Number.isFinite(values[member])) form.set(member, values[member], {quietly: true});
}

/** Fill in the defaults that depend on choices. */
function fillDefaults() {
  const defaults = defaultsAfter(data.fields, data.defaults_of, form.texts);
  for (const [setting, text] of Object.entries(defaults)) form.set(setting, text, {quietly: true});
}

function fitModel() {
  form.offer("model", data.catalogue.data_sets[form.texts.dataset]?.models ?? null);
}

function describeChoices() {
  allSettings.update(form.texts, form.chosen);
  const {dataset, model} = form.texts;
  const own = {dataset: data.catalogue.data_sets[dataset]?.note, model: data.catalogue.models[model]?.notes[dataset], private: data.catalogue.models[model]?.unclipped[dataset]};
  for (const name of Object.keys(data.notes)) own[name] = data.notes[name][form.texts[name]];
  for (const name of Object.keys(own)) planPanel.note(name, own[name] ?? "");
  presets.mark(currentPreset());
}

/** Preset with the current settings, if there is one. */
function currentPreset() {
  return presets.slugOf(form.given);
}

/** Request the privacy cost of the settings. */
async function ask(signal) {
  const query = toQuery(form.given);
  remember(`?${setUp()}${location.hash}`);
  try {
    form.requireFilled();
    const address = `/api/v1/privacy/plan?${query}&points=${data.points}`;
    const preliminary = await getJson(`${address}&preliminary=true`, {signal});
    const answer = getJson(address, {signal});
    if (!(await newest.isSoon(answer))) {
      accept(preliminary);
      newest.rest();
    }
    accept(await answer);
    store.exact = {query, plan: await answer};
  } catch (error) {
    if (error.name !== "AbortError") refuse(error);
  }
}

function accept(answer) {
  store.plan = answer;
  data.config = {...data.config, ...form.blanks, ...form.json};
  form.showErrors({});
  form.offer("accountant", answer.accountants);
  planPanel.show(answer);
  layers.show(answer);
  card.show(answer, data.config);
  if (!store.run) showSetUp();
}

function refuse(error) {
  store.plan = null;
  planPanel.show(null);
  layers.show(null);
  card.show(null, null);
  if (!store.run) panel.notReady();
  if (Object.keys(error.fields ?? {}).length === 0) showRunError(error);
  else form.showErrors(error.fields);
}

function copyLink() {
  remember(`?${setUp()}${location.hash}`);
  return copyText(`${location.origin}${location.pathname}?${setUp()}`, part("copied"));
}

/* Run */

function showSetUp() {
  panel.show({
    log: null,
    plan: chartPlan(store.plan, data.config, data.catalogue),
    title: "This set-up",
    file: "dpsgd",
    terms: terms(store.plan, data.catalogue),
    ghosts: ghosts.beside(currentPreset()),
    activity: {},
  });
}

function updateGhosts() {
  if (!panel.content) return;
  const {run} = store;
  panel.update({ghosts: run ? ghosts.beside(presets.slugOf(asTexts(run.answer.config)), run.answer.id) : ghosts.beside(currentPreset())});
}

async function launch() {
  if (store.launching) return;
  store.launching = true;
  showRunError(null);
  try {
    form.requireFilled();
    const query = toQuery(form.given);
    const answer = await postJson("/api/v1/runs", {...form.json, ...data.labels});
    remember(`?${setUp()}#run=${answer.id}`);
    bringIntoView(part("status-bar"), page.querySelector(".accuracy-box"));
    const isKnown = store.exact.plan && store.exact.query === query; // the page already has the plan of this run
    attach(answer, isKnown ? store.exact.plan : await planOf(answer.config));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    form.showErrors(error.fields);
    Object.keys(error.fields).length === 0 ? showRunError(error) : form.focusError();
  } finally {
    store.launching = false;
  }
}

async function attachFromAddress() {
  const id = new URLSearchParams(location.hash.slice(1)).get("run");
  if (!id || id === store.run?.answer.id) return;
  try {
    const answer = await getJson(`/api/v1/runs/${encodeURIComponent(id)}`);
    if (!answer.links.trainer) location.replace(answer.links.page); // other kinds of runs have pages of their own
    else attach(answer, await planOf(answer.config));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    remember(location.pathname + location.search);
    showRunError(error);
  }
}

/** A link with `#start` starts a run if it is on a page of this site; from elsewhere, it only fills the form. */
function startFromAddress() {
  if (location.hash !== "#start") return;
  remember(location.pathname + location.search);
  if (document.referrer.startsWith(`${location.origin}/`)) launch();
}

function planOf(config) {
  return getJson(`/api/v1/privacy/plan?${toQuery(asTexts(config))}&points=${data.points}`);
}

function attach(answer, plan) {
  store.run?.release();
  const content = {...trainingContent(answer, plan, data.catalogue), ghosts: ghosts.beside(presets.slugOf(asTexts(answer.config)), answer.id)};
  store.run = new LiveRun(answer, content, panel, runMoved);
  store.run.resume();
  runMoved();
}

function runMoved() {
  const {run} = store;
  const going = run !== null && !run.log.isFinal;
  const focused = document.activeElement === part("run") || document.activeElement === part("stop");
  part("run").hidden = going && run.answer.mine; // hidden, not disabled: disabling would lose the focus
  part("stop").hidden = !(going && run.answer.mine);
  part("next").hidden = !going;
  if (focused) (part("run").hidden ? part("stop") : part("run")).focus();
  refreshLatest();
}

/** Table of the latest runs, drawn by the server with the differences between runs. */
async function refreshLatest() {
  const box = part("latest-runs");
  const response = await fetch(box.dataset.latestRuns).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  box.replaceChildren(...fresh.body.children);
  showTimes(box);
}

async function stop() {
  if (store.run.stopping) return;
  try {
    await store.run.stop();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showRunError(error);
  }
}

function showRunError(error) {
  const line = part("run-error");
  line.textContent = error?.message ?? "";
  line.hidden = !error;
}
