/** Replay of a finished run, with a slider over its steps. */

import {integer} from "../../lib/format.js";
import {player} from "../../lib/player.js";

const PACE = {length: 7000, tick: 100}; // milliseconds; the charts are drawn at each tick

/**
 * @param {HTMLElement} root of the player, shown by this function
 * @param {import("./run_log.js").RunLog} log of the whole run
 * @param {(past: import("./run_log.js").RunLog) => void} onMove called with the log up to the chosen step
 * @returns {() => void} goes to the last step
 */
export function replay(root, log, onMove) {
  const last = log.latest.step;
  const words = (step) => `step ${integer(step)} of ${integer(last)}`;
  const shown = player(root, {words, show: (step) => onMove(log.until(step)), pace: PACE});
  shown.reset(last);
  root.hidden = false;
  return () => shown.reset(last);
}
