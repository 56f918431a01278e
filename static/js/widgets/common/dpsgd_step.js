/** One DP-SGD step in sub-steps; gradients are negated, so that they point in the direction of descent. */

import {gradient, length} from "./toy_problem.js";

export const scaled = ([a, b], factor) => [a * factor, b * factor];
export const plus = ([a, b], [c, d]) => [a + c, b + d];
export const total = (vectors) => vectors.reduce(plus, [0, 0]);

/** Scales a vector down to a maximum norm. */
export function clip(vector, bound) {
  const size = length(vector);
  return size > bound ? scaled(vector, bound / size) : vector;
}

/** Angle between two vectors in degrees; 0 if one of them is zero. */
export function angle(p, q) {
  const product = length(p) * length(q);
  if (product === 0) return 0;
  return (Math.acos(Math.min(1, Math.max(-1, (p[0] * q[0] + p[1] * q[1]) / product))) * 180) / Math.PI;
}

/** All quantities of a step, as sums; `noise` is one sample in units of σC. */
export function compute({records, at, drawn, bound, noiseMultiplier, noise}) {
  const pulls = drawn.map((i) => scaled(gradient(at, records[i]), -1));
  const clipped = pulls.map((pull) => clip(pull, bound));
  const spread = noiseMultiplier * bound;
  const sums = {true: total(pulls), clipped: total(clipped)};
  return {
    pulls, clipped, spread, sums: {...sums, noisy: plus(sums.clipped, scaled(noise, spread))},
    cut: pulls.filter((pull) => length(pull) > bound).length,
  };
}
