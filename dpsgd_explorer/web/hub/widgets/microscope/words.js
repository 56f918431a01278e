/** Heading and sentence of each sub-step. */

import {decimals, plural} from "../../../../../static/js/lib/format.js";
import {length} from "../../../../../static/js/widgets/common/toy_problem.js";
import {angle} from "../../../../../static/js/widgets/common/dpsgd_step.js";

/** Pure: [heading, sentence] of a sub-step. */
export function words(name, step, {drawn, records, expected, bound, learning_rate: rate, sample_rate: sampling, at, ghosts}) {
  const count = drawn.length;
  const longest = Math.max(0, ...step.pulls.map(length));
  const mean = (vector) => decimals(length(vector) / expected);
  const bias = Math.round(angle(step.sums.true, step.sums.clipped));
  const off = Math.round(angle(step.sums.true, step.sums.noisy));
  const moved = step.sums.noisy.map((value, i) => at[i] + (rate * value) / expected);
  return {
    sample: [
      `${count} of ${records.length} records take part in this step`,
      `Each record is drawn with probability q = ${sampling}, on its own. So the size of the batch is chance: ${count} this time, ${expected} expected.`,
    ],
    compute: [
      count ? `${plural(count, "record")} pull, the longest with ${decimals(longest)}` : "Nobody pulls: the batch is empty",
      "Each arrow is one record’s gradient, turned round: where it wants the line to go. In ordinary SGD one long arrow can steer the step.",
    ],
    clip: [
      step.cut ? `${step.cut} of ${count} gradients are longer than C and are cut` : "No gradient is longer than C, so none is cut",
      `Now no record can move the sum by more than C = ${decimals(bound)}. The short arrows stay as they are.`,
    ],
    sum: [
      `Summed, clipping turns the step by ${bias}°`,
      `Arrow after arrow: the sum is ${decimals(length(step.sums.clipped))} long instead of ${decimals(length(step.sums.true))}. That is bias, and it costs no ε.`,
    ],
    noise: [
      `Clipping turns the step by ${bias}°; with this noise it is off by ${off}°`,
      `Noise of standard deviation σC = ${decimals(step.spread)} in each direction, added once to the sum. The pale dots are ${ghosts.length} other draws. Drag C: the cloud grows with it, and ε stays.`,
    ],
    divide: [
      `Divided by ${expected}, the released mean is ${mean(step.sums.noisy)} long`,
      `The divisor is the expected size qN = ${expected}, a constant, and not the ${count} that were drawn: that number depends on who was drawn.`,
    ],
    move: [
      "The line moves, and only the noisy mean has touched it",
      `With learning rate η = ${rate} the slope goes from ${decimals(at[0])} to ${decimals(moved[0])}, the intercept from ${decimals(at[1])} to ${decimals(moved[1])}. Somebody who sees the new line has seen nothing else.`,
    ],
  }[name];
}

/** Pure: record of a selected arrow, and the effect of clipping on it. */
export function which(chosen, step, {drawn, records, odd, bound}) {
  const [x, y] = records[chosen];
  const name = chosen === odd ? "the odd one" : `x = ${decimals(x)}, y = ${decimals(y)}`;
  const index = drawn.indexOf(chosen);
  if (index < 0) return `Record ${chosen + 1}, ${name}. Not drawn into this batch.`;
  const size = length(step.pulls[index]);
  const rest = size > bound ? `clipped to ${decimals(bound)} it keeps ${Math.round((100 * bound) / size)} %` : "not clipped";
  return `Record ${chosen + 1}, ${name}. Its gradient is ${decimals(size)} long; ${rest}.`;
}
