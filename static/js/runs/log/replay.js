/** Replay of a finished run, with a slider over its steps. */

import {integer} from "../../lib/format.js";
import {player} from "../../lib/player.js";

const PACE = {length: 7000, tick: 100}; // milliseconds; the charts are drawn at each tick

/**
 * @param {HTMLElement} root of the player, shown by this function
 * @param {import("./run_log.js").RunLog} log of the whole run
 * @param {(past: import("./run_log.js").RunLog) => void} onMove called with the log up to the chosen step
 */
export function replay(root, log, onMove) {
  const last = log.latest.step;
  const words = (step) => `step ${integer(step)} of ${integer(last)}`;
  player(root, {words, show: (step) => onMove(log.until(step)), pace: PACE}).reset(last);
  root.hidden = false;
}
