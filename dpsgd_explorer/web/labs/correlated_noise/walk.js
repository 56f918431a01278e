/** Noise in sums of gradients: one draw of it, for a strategy of the recording. No DOM. */

/**
 * Sums of a strategy's noise over the steps so far.
 * @param {{weights: number[]}} strategy weights of the latest z, of the one before it, and so on
 * @param {Float64Array} draws one standard normal z for each step
 * @param {number} scale standard deviation of z
 */
export function walk({weights}, draws, scale) {
  let sum = 0;
  return draws.map((_, step) => {
    const last = Math.min(weights.length - 1, step);
    for (let back = 0; back <= last; back++) sum += scale * weights[back] * draws[step - back];
    return sum;
  });
}

/** Heading. @param {string} ratio of errors, from the server @param {number} epsilon @param {boolean} isIndependent */
export function conclusion(ratio, epsilon, isIndependent) {
  if (isIndependent) return `Independent noise at ε = ${epsilon}: choose more bands`;
  if (Number(ratio) >= 1) return `Nothing gained at ε = ${epsilon}: sums have ${ratio} times the noise`;
  return `At ε = ${epsilon}, sums have ${ratio} times the noise of independent noise`;
}
