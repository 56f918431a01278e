/**
 * The vertical axis of test accuracy: its range, its ticks, and where a point lies on it. It is one of errors, by
 * ratio: from 90 to 99 is as far as from 0 to 90, so that the first points and the last half point are seen.
 */

import {valueAxis} from "./base.js";

const TICKS = [99, 98, 95, 90, 85, 80, 70, 75, 60, 50, 0]; // percent right; the first of those that would touch
const APART = 0.08; // of the axis: ticks closer than that touch
const MOST = 99.5; // percent: one in two hundred wrong

export const SCALE_WORDS = "log of the error";

/**
 * The accuracy axis, known before the run: what a working run reaches. It opens as far as the points need.
 * @param {{accuracy_floor: number, accuracy_ceiling: number}} catalogue
 * @param {{test_accuracy: number}[]} points of the run and of what is drawn beside it
 * @returns {[number, number]} in percent
 */
export function accuracyRange({accuracy_floor: floor, accuracy_ceiling: ceiling}, points) {
  const shares = points.map((point) => 100 * point.test_accuracy);
  const [low, high] = [Math.min(100 * floor, ...shares), Math.max(100 * ceiling, ...shares)];
  return [low < 100 * floor ? 10 * Math.floor(low / 10) : 100 * floor, high > 100 * ceiling ? MOST : 100 * ceiling];
}

/**
 * Where a percentage lies on the axis; what is beyond its end lies at the end.
 * @param {number} percent @param {[number, number]} range
 */
export function height(percent, [, ceiling]) {
  return -Math.log10(1 - Math.min(percent, ceiling) / 100);
}

/** The percentage at a place on the axis, where `height` puts it. @param {number} place */
export function accuracyOf(place) {
  return 100 * (1 - 10 ** -place);
}

/** @param {{test_accuracy: number}} point @param {[number, number]} range */
export function heightOf({test_accuracy}, range) {
  return height(100 * test_accuracy, range);
}

/** The part of the axis below a point, from 0 to 1. @param {{test_accuracy: number}} point @param {[number, number]} range */
export function shareOf(point, range) {
  const [floor, ceiling] = range.map((end) => height(end, range));
  return (heightOf(point, range) - floor) / (ceiling - floor);
}

/** @param {{range: [number, number]}} view */
export function yAxis({range}, color) {
  const shown = ticks(range);
  return valueAxis(color, range.map((end) => height(end, range)), {tickvals: shown.map((tick) => height(tick, range)), ticktext: shown.map(String)});
}

/** Round percentages within the axis, so far from each other. @param {[number, number]} range */
export function ticks(range, apart = APART) {
  const [floor, ceiling] = range.map((end) => height(end, range));
  const kept = [];
  for (const tick of [range[0], ...TICKS]) {
    const at = height(tick, range);
    if (tick >= range[0] && tick <= range[1] && kept.every((other) => Math.abs(height(other, range) - at) >= apart * (ceiling - floor))) kept.push(tick);
  }
  return kept.sort((a, b) => a - b);
}
