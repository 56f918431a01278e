/** The vertical axis of test accuracy: its range, its ticks, and where a point lies on it. */

import {valueAxis} from "./base.js";

const ERROR_TICKS = [0, 50, 80, 90, 95, 98, 99]; // percent right
const WHOLE = [0, 99.5]; // percent: from no answer right to one in two hundred wrong

/**
 * The accuracy axis, known before the run: what a working run reaches, and the whole
 * range if it turns out to stay below.
 * @param {{accuracy_floor: number, accuracy_ceiling: number}} catalogue
 * @param {{test_accuracy: number}[]} evaluations
 * @param {number} planned evaluations the run will make
 * @returns {[number, number]} in percent
 */
export function accuracyRange({accuracy_floor: floor, accuracy_ceiling: ceiling}, evaluations, planned) {
  const enough = Math.max(4, planned / 4);
  const seen = evaluations.slice(0, Math.ceil(enough));
  const low = evaluations.length >= enough && seen.every((point) => point.test_accuracy < floor);
  return low ? WHOLE : [100 * floor, 100 * ceiling];
}

/**
 * Where a percentage lies on its axis. An axis that begins at 0 is one of errors, by ratio:
 * from 90 to 99 is as far as from 0 to 90, so that the first points and the last are seen.
 * @param {number} percent @param {[number, number]} range
 */
export function height(percent, [floor, ceiling]) {
  return floor > 0 ? percent : -Math.log10(1 - Math.min(percent, ceiling) / 100);
}

/** @param {{test_accuracy: number}} point @param {[number, number]} range */
export function heightOf({test_accuracy}, range) {
  return height(100 * test_accuracy, range);
}

/** @param {{range: [number, number]}} view */
export function yAxis({range}, color) {
  if (range[0] === 0) return errorAxis(range, color);
  return valueAxis(color, range, {dtick: 5, tick0: 0});
}

function errorAxis(range, color) {
  const ticks = {tickvals: ERROR_TICKS.map((tick) => height(tick, range)), ticktext: ERROR_TICKS.map(String)};
  return valueAxis(color, range.map((end) => height(end, range)), ticks);
}
