/** Plays a finished run again, or stops at any step of it. */

import {integer} from "../../lib/format.js";
import {player} from "../../lib/player.js";

const PACE = {length: 7000, tick: 100}; // milliseconds: charts are drawn at each place

/**
 * @param {HTMLElement} root of the player, which it shows
 * @param {import("./run_log.js").RunLog} log of the whole run
 * @param {(past: import("./run_log.js").RunLog) => void} onMove
 */
export function replay(root, log, onMove) {
  const last = log.latest.step;
  const words = (step) => `step ${integer(step)} of ${integer(last)}`;
  player(root, {words, show: (step) => onMove(log.until(step)), pace: PACE}).reset(last);
  root.hidden = false;
}
