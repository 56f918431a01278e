/** Ranges, ticks and thinning: what keeps axes calm and charts light. */

/** Round steps of 1, 2 or 5 times a power of ten, about `count` of them up to `end`. */
export function niceStep(end, count) {
  const rough = end / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  return step * power;
}

/** Evenly spaced round values from 0 up to `end`; none where it is no length. @returns {number[]} */
export function niceTicks(end, count = 6) {
  if (!(end > 0 && end < Infinity)) return [];
  const step = niceStep(end, count);
  const ticks = [];
  for (let i = 0; i * step <= end * (1 + 1e-9); i += 1) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

/** The smallest round value (1, 2 or 5 times a power of ten) that is not below `value`. */
export function niceCeiling(value) {
  return niceStep(value, 1);
}

/**
 * At most `limit` of the points: the first and last, and of each stretch between them
 * its lowest and its highest, in their order, so that no spike goes missing.
 * @template T
 * @param {T[]} points
 * @param {(point: T) => number} value
 * @returns {T[]}
 */
export function thin(points, value, limit = 1000) {
  if (points.length <= limit) return points;
  const stretches = Math.floor((limit - 2) / 2);
  const inner = points.length - 2;
  const kept = [points[0]];
  for (let i = 0; i < stretches; i += 1) {
    const from = 1 + Math.floor((i * inner) / stretches);
    const to = 1 + Math.floor(((i + 1) * inner) / stretches);
    kept.push(...extremes(points, value, from, to));
  }
  kept.push(points.at(-1));
  return kept;
}

function extremes(points, value, from, to) {
  let [low, high] = [from, from];
  for (let i = from + 1; i < to; i += 1) {
    if (value(points[i]) < value(points[low])) low = i;
    if (value(points[i]) > value(points[high])) high = i;
  }
  if (low === high) return [points[low]];
  return low < high ? [points[low], points[high]] : [points[high], points[low]];
}
