/**
 * A slider whose marks are evenly spaced: position i is marks[i], and between two
 * marks the value is interpolated, by ratio unless the marks are equally far apart.
 */

/** @param {number[]} marks ascending */
export function isLinear(marks) {
  const gaps = marks.slice(1).map((mark, i) => mark - marks[i]);
  return gaps.every((gap) => Math.abs(gap - gaps[0]) < 1e-9 * Math.abs(gaps[0]));
}

/** The value at a position in [0, marks.length - 1], rounded to what a person would type. */
export function valueAt(marks, position, {step = null, whole = false} = {}) {
  const near = Math.round(position);
  if (Math.abs(position - near) < 0.015) return marks[near];
  const low = Math.floor(position);
  const part = position - low;
  const [a, b] = [marks[low], marks[low + 1]];
  if (isLinear(marks)) return nearest(a + part * (b - a), step);
  return round(a * (b / a) ** part, whole);
}

/** Where a value stands on the slider; beyond the last mark it stands at the end. */
export function positionOf(marks, value) {
  const last = marks.length - 1;
  if (value <= marks[0]) return 0;
  if (value >= marks[last]) return last;
  const low = marks.findLastIndex((mark) => mark <= value);
  const [a, b] = [marks[low], marks[low + 1]];
  return low + (isLinear(marks) ? (value - a) / (b - a) : Math.log(value / a) / Math.log(b / a));
}

function nearest(value, step) {
  return Number((step ? Math.round(value / step) * step : value).toPrecision(6));
}

function round(value, whole) {
  const two = Number(value.toPrecision(2));
  return whole ? Math.max(1, Math.round(two)) : two;
}
