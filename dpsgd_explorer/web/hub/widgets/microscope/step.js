/** One DP-SGD step, sub-step by sub-step; gradients are turned round, so they point where a record pulls. */

import {gradient, length} from "../../../../../static/js/widgets/common/toy_problem.js";

export const scaled = ([a, b], factor) => [a * factor, b * factor];
export const plus = ([a, b], [c, d]) => [a + c, b + d];
export const total = (vectors) => vectors.reduce(plus, [0, 0]);

/** Shortened to a length, if it is longer. */
export function clip(vector, bound) {
  const size = length(vector);
  return size > bound ? scaled(vector, bound / size) : vector;
}

/** The angle between two vectors, degrees; 0 where one of them is nothing. */
export function angle(p, q) {
  const product = length(p) * length(q);
  if (product === 0) return 0;
  return (Math.acos(Math.min(1, Math.max(-1, (p[0] * q[0] + p[1] * q[1]) / product))) * 180) / Math.PI;
}

/** Everything that a step computes, in sums; `noise` is one draw in units of σC. */
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
