/**
 * Rules of axes: round ticks, and the scale and range of accuracies. `dpsgd_explorer/web/charts/ticks.py` has the same
 * rules for the server's drawings; `tests/web/charts/test_ticks.py` compares both.
 */

/** @typedef {[number, number]} Ends of an axis, in percent on axes of accuracies */

const TICKS = [99.9, 99, 98, 95, 90, 85, 80, 70, 75, 60, 50, 0, 40, 30, 20, 10]; // percent, in order of preference
const APART = 0.08; // smallest distance of two ticks, as a share of the axis
const CLOSE = 20; // percentage points; a smaller range has evenly spaced ticks
const ROUND = 5; // percentage points; an end of the axis that divides by it has a tick
const MAX_PERCENT = 99.5; // end of the axis for accuracies above the usual range
const MOST_TICKS = 8; // more ticks of a logarithmic axis are only powers of ten
const text = new Intl.NumberFormat("en-US", {maximumSignificantDigits: 6});

/** Round step of 1, 2 or 5 times a power of ten, for about `count` ticks up to `end`. */
export function niceStep(end, count) {
  const rough = end / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  return step * power;
}

/** Evenly spaced round values from 0 to `end`; empty if `end` is not positive and finite. @returns {number[]} */
export function niceTicks(end, count = 6) {
  return end > 0 && end < Infinity ? spaced([0, end], count) : [];
}

/** The smallest round value (1, 2 or 5 times a power of ten) that is not below `value`. */
export function niceCeiling(value) {
  return niceStep(value, 1);
}

/** Evenly spaced round values between two ends, about `count`. @param {Ends} ends @returns {number[]} */
export function spaced([low, high], count) {
  const step = niceStep(high - low, count);
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({length: last - first + 1}, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Round values of a logarithmic axis. @param {Ends} ends @returns {number[]} */
export function logTicks([low, high]) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const factor of [1, 2, 5]) ticks.push(Number(`${factor}e${power}`));
  }
  const inside = ticks.filter((tick) => tick >= low && tick <= high);
  return inside.length > MOST_TICKS ? inside.filter((tick) => /^[0.]*1/.test(String(tick))) : inside;
}

/** Text of a tick, at most six digits. */
export function tickText(value) {
  return text.format(value);
}

/** Position of an accuracy on an axis that is logarithmic in the error; above the upper end it is at the end. @param {Ends} ends */
export function height(percent, [, ceiling]) {
  return -Math.log10(1 - Math.min(percent, ceiling) / 100);
}

/** Accuracy in percent at a position, the inverse of `height`. */
export function accuracyOf(place) {
  return 100 * (1 - 10 ** -place);
}

/** Ticks between two accuracies, in percent. @param {Ends} ends @param {number} [apart] share of the axis */
export function errorTicks(ends, apart = APART) {
  const [low, high] = ends;
  if (high - low < CLOSE) return spaced(ends, 5);
  const [floor, ceiling] = ends.map((end) => height(end, ends));
  const kept = [];
  for (const tick of low % ROUND === 0 ? [low, ...TICKS] : TICKS) {
    const isApart = kept.every((other) => Math.abs(height(other, ends) - height(tick, ends)) >= apart * (ceiling - floor));
    if (tick >= low && tick <= high && isApart) kept.push(tick);
  }
  return kept.sort((a, b) => a - b);
}

/** The usual ends of an axis of accuracies, extended to contain all. @param {Ends} usual @returns {Ends} */
export function errorRange([floor, ceiling], percents) {
  const [low, high] = [Math.min(floor, ...percents), Math.max(ceiling, ...percents)];
  return [low < floor ? 10 * Math.floor(low / 10) : floor, high > ceiling ? MAX_PERCENT : ceiling];
}
