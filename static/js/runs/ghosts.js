/** The pinned runs as ghosts: their evaluations, read once from the log of each. */

import {getJson} from "../lib/api.js";
import {clock} from "../lib/times.js";
import {unpin} from "./pinned.js";
import {FINAL_STATES} from "./sse.js";

const PAGE = 5000;
const GONE = 404;
const finished = new Map(); // a run that has ended does not change

/** @param {string[]} ids @returns {Promise<import("../charts/ghosts.js").Ghost[]>} in the same order, without those that cannot be read */
export async function ghostsOf(ids) {
  const ghosts = await Promise.all(ids.map((id) => ghostOf(id).catch((error) => forget(id, error))));
  return ghosts.filter((ghost) => ghost !== null);
}

async function ghostOf(id) {
  if (finished.has(id)) return finished.get(id);
  const run = await getJson(`/api/v1/runs/${encodeURIComponent(id)}`);
  if (run.kind !== "training") return null;
  const {events} = await getJson(`${run.links.log}?kind=evaluation&limit=${PAGE}`);
  const ghost = {id, label: run.name || `Run of ${clock(run.created_at)}`, points: events.map(({data}) => data)};
  if (FINAL_STATES.has(run.state)) finished.set(id, ghost);
  return ghost;
}

/** A run that was deleted is pinned no longer. */
function forget(id, error) {
  if (error.status === GONE) unpin(id);
  return null;
}
