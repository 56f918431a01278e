/** Other runs on the trainer's chart: recorded ones, and those that the visitor pinned. */

import {getJson} from "../../lib/api.js";
import {FINAL_STATES} from "../log/run_log.js";

const KEY = "pinned-runs";
const CHANGED = "pinnedchange";
const ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Runs pinned at once: a chart with more lines is read by nobody. */
export const MOST = 4;

/** Ids of the pinned runs, first pinned first; what is broken in storage is emptied. @returns {string[]} */
export function pinned() {
  const text = read();
  if (text === null) return [];
  const ids = idsIn(text);
  if (ids === null) write([]);
  return ids ?? [];
}

/** @param {string} id */
export function isPinned(id) {
  return pinned().includes(id);
}

/** Pin a run. @param {string} id @returns {boolean} false if MOST others are pinned, or storage is switched off */
export function pin(id) {
  const ids = pinned();
  if (ids.includes(id)) return true;
  return ID.test(id) && ids.length < MOST && change([...ids, id]);
}

/** Take a pinned run away; nothing happens if it is not pinned. @param {string} id */
export function unpin(id) {
  const ids = pinned();
  if (ids.includes(id)) change(ids.filter((one) => one !== id));
}

/** Call back with the pinned ids whenever they change, in this page or in another one. @param {(ids: string[]) => void} callback */
export function onPinned(callback) {
  addEventListener(CHANGED, () => callback(pinned()));
  addEventListener("storage", ({key}) => (key === KEY || key === null) && callback(pinned()));
}

/** Distinct ids, or null where the text is not a short list of ids. */
function idsIn(text) {
  try {
    const ids = JSON.parse(text);
    const isList = Array.isArray(ids) && ids.length <= MOST && new Set(ids).size === ids.length;
    return isList && ids.every((id) => typeof id === "string" && ID.test(id)) ? ids : null;
  } catch {
    return null;
  }
}

function change(ids) {
  if (!write(ids)) return false;
  dispatchEvent(new Event(CHANGED));
  return true;
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is switched off
  }
}

function write(ids) {
  try {
    if (ids.length) localStorage.setItem(KEY, JSON.stringify(ids));
    else localStorage.removeItem(KEY);
    return true;
  } catch {
    return false; // storage is switched off or full
  }
}

const PAGE = 5000;
const GONE = 404;
const finished = new Map(); // a run that has ended does not change

/** Pure: evaluations that were sent by columns. @param {Record<string, any[]>} columns of one length */
export function pointsOf(columns) {
  const names = Object.keys(columns);
  return (columns.step ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

export class Ghosts {
  /**
   * @param {Record<string, Record<"recorded" | "twin", Record<string, any[]>>>} recorded evaluations by columns, by preset
   * @param {() => void} onChange
   */
  constructor(recorded, onChange) {
    this.recorded = Object.fromEntries(
      Object.entries(recorded).map(([slug, of]) => [slug, {recorded: pointsOf(of.recorded), twin: pointsOf(of.twin)}]),
    );
    this.onChange = onChange;
    /** @type {import("../../charts/ghosts.js").Ghost[]} */
    this.pins = [];
    this.removed = new Set(); // recorded lines that the visitor took away
  }

  /** From now on pinned runs are drawn once the server has sent them. */
  readPins() {
    onPinned((ids) => this.showPins(ids));
    this.showPins(pinned());
  }

  async showPins(ids) {
    const pins = await Promise.all(ids.map((id) => ghostOf(id).catch((error) => forget(id, error))));
    this.pins = pins.filter((ghost) => ghost !== null);
    this.onChange();
  }

  /** @param {string | undefined} preset that the settings are @param {string | null} id of the run itself */
  beside(preset, id = null) {
    const {recorded, twin} = this.recorded[preset] ?? {};
    const lines = [];
    if (recorded) lines.push({id: "recorded", label: "recorded", look: "recorded", yields: true, points: recorded});
    if (twin?.length) lines.push({id: "twin", label: "twin without privacy", look: "twin", points: twin});
    return [...lines, ...this.pins].filter((ghost) => ghost.id !== id && !this.removed.has(ghost.id));
  }

  /** Take a line away; a pinned run is pinned no longer. */
  remove(id) {
    if (pinned().includes(id)) unpin(id);
    else this.removed.add(id);
    this.onChange();
  }
}

async function ghostOf(id) {
  if (finished.has(id)) return finished.get(id);
  const run = await getJson(`/api/v1/runs/${encodeURIComponent(id)}`);
  if (!run.links.trainer) return null;
  const {events} = await getJson(`${run.links.log}?kind=evaluation&limit=${PAGE}`);
  const ghost = {id, label: run.title, points: events.map(({data}) => data)};
  if (FINAL_STATES.has(run.state)) finished.set(id, ghost);
  return ghost;
}

/** A run that was deleted is pinned no longer. */
function forget(id, error) {
  if (error.status === GONE) unpin(id);
  return null;
}

/**
 * @param {HTMLElement} root holds [data-pin] buttons, now or later
 * @param {(words: string) => void} say
 */
export function wirePins(root, say) {
  showPins(root);
  onPinned(() => showPins(root));
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-pin]");
    if (button) toggle(button.dataset.pin, say);
  });
}

/** Show on each button whether its run is pinned. */
export function showPins(root) {
  for (const button of root.querySelectorAll("[data-pin]")) {
    const pressed = isPinned(button.dataset.pin);
    button.setAttribute("aria-pressed", String(pressed));
    button.textContent = button.dataset.words ? button.dataset.words.split("|")[Number(pressed)] : pressed ? "Pinned" : "Pin";
  }
}

function toggle(id, say) {
  if (isPinned(id)) {
    unpin(id);
    say("No longer pinned on Train.");
  } else if (pin(id)) say("Pinned: Train shows it behind the next run.");
  else say(`At most ${MOST} runs can be pinned on Train. Remove one first.`);
}
