/** What is drawn behind a run: the recorded run of its settings and its twin, and what is pinned. */

import {getJson} from "../../lib/api.js";
import {onPinned, pinned, unpin} from "./pinned.js";
import {FINAL_STATES} from "../log/sse.js";

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
