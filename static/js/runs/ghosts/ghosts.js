/** Ghosts on the trainer's chart: recorded runs, and runs that the visitor pinned. */

import {getJson} from "../../lib/api.js";
import {FINAL_STATES} from "../log/run_log.js";

const KEY = "pinned-runs";
const CHANGED = "pinnedchange";
const ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Maximum number of pinned runs; more lines make the chart unreadable. */
export const MOST = 4;

/** Ids of the pinned runs, oldest pin first; invalid storage is cleared. @returns {string[]} */
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

/** Pin a run. @param {string} id @returns {boolean} false if `MOST` other runs are pinned, or storage is blocked */
export function pin(id) {
  const ids = pinned();
  if (ids.includes(id)) return true;
  return ID.test(id) && ids.length < MOST && change([...ids, id]);
}

/** Unpin a run; no effect if it is not pinned. @param {string} id */
export function unpin(id) {
  const ids = pinned();
  if (ids.includes(id)) change(ids.filter((other) => other !== id));
}

/** Call back with the pinned ids whenever they change, in any tab. @param {(ids: string[]) => void} callback */
export function onPinned(callback) {
  addEventListener(CHANGED, () => callback(pinned()));
  addEventListener("storage", ({key}) => (key === KEY || key === null) && callback(pinned()));
}

/** Distinct ids, or null if the text is not a valid list of ids. */
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
    return null; // storage is blocked
  }
}

function write(ids) {
  try {
    if (ids.length) localStorage.setItem(KEY, JSON.stringify(ids));
    else localStorage.removeItem(KEY);
    return true;
  } catch {
    return false; // storage is blocked or full
  }
}

const PAGE = 5000;
const GONE = 404;
const PIN = "run"; // name of the look of pinned runs
const finished = new Map(); // evaluations of ended runs, which do not change

/** Pure: converts columns to evaluations. @param {Record<string, any[]>} columns of equal length */
export function pointsOf(columns) {
  const names = Object.keys(columns);
  return (columns.step ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

export class Ghosts {
  /**
   * @param {Record<string, Record<"recorded" | "twin", Record<string, any[]>>>} recorded columns of evaluations, by
   *   preset
   * @param {Record<string, import("../../charts/ghosts.js").Look>} looks of the lines, by name
   * @param {() => void} onChange
   */
  constructor(recorded, looks, onChange) {
    this.looks = looks;
    this.recorded = Object.fromEntries(
      Object.entries(recorded).map(([slug, of]) => [slug, {recorded: pointsOf(of.recorded), twin: pointsOf(of.twin)}]),
    );
    this.onChange = onChange;
    /** @type {{id: string, label: string, points: object[]}[]} */
    this.pins = [];
    this.removed = new Set(); // ids of recorded lines that the visitor removed
  }

  /** Start to fetch and draw the pinned runs. */
  readPins() {
    onPinned((ids) => this.showPins(ids));
    this.showPins(pinned());
  }

  async showPins(ids) {
    const pins = await Promise.all(ids.map((id) => ghostOf(id).catch((error) => forget(id, error))));
    this.pins = pins.filter((ghost) => ghost !== null);
    this.onChange();
  }

  /** @param {string | undefined} preset with the current settings @param {string | null} id of the current run */
  beside(preset, id = null) {
    const recorded = Object.entries(this.recorded[preset] ?? {}).filter(([, points]) => points.length);
    const lines = recorded.map(([name, points]) => ({...this.looks[name], id: name, look: name, points}));
    const pins = this.pins.map((pin) => ({...this.looks[PIN], ...pin, look: PIN}));
    return [...lines, ...pins].filter((ghost) => ghost.id !== id && !this.removed.has(ghost.id));
  }

  /** Remove a line; a pinned run is unpinned. */
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

/** Unpin a deleted run. */
function forget(id, error) {
  if (error.status === GONE) unpin(id);
  return null;
}

/**
 * @param {HTMLElement} root contains [data-pin] buttons, also later ones
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

/** Set each button's pressed state. */
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
