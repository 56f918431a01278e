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

/**
 * Sums of the noise of a binary tree over the steps so far.
 * @param {{estimator: string}} strategy plain, online or full
 * @param {Float64Array} draws two standard normals for each step, enough for all nodes
 * @param {number} scale standard deviation of a node's noise
 */
export function treeWalk({estimator}, draws, scale) {
  const steps = draws.length / 2;
  const levels = [];
  let used = 0;
  for (let size = 1; size <= steps; size *= 2) {
    const first = used, below = levels.at(-1);
    const share = estimator === "plain" ? 1 : size / (2 * size - 1); // of the node, in its best estimate from below
    levels.push(Float64Array.from({length: Math.floor(steps / size)}, (_, i) =>
      scale * share * draws[first + i] + (below ? (1 - share) * (below[2 * i] + below[2 * i + 1]) : 0)));
    used += levels.at(-1).length;
  }
  if (estimator === "full") levels.slice(0, -1).reverse().forEach((children, down) => levels.at(-1 - down).forEach((value, i) => {
    const rest = (value - children[2 * i] - children[2 * i + 1]) / 2; // least squares: both halves take the same part
    children[2 * i] += rest;
    children[2 * i + 1] += rest;
  }));
  return Float64Array.from({length: steps}, (_, step) => levels.reduce((sum, nodes, level) => {
    const count = Math.floor((step + 1) / 2 ** level); // whole nodes of this size; an odd one is a part of the sum
    return count % 2 ? sum + nodes[count - 1] : sum;
  }, 0));
}

/** Heading. @param {string} ratio of errors, from the server @param {number} epsilon @param {boolean} isIndependent */
export function conclusion(ratio, epsilon, isIndependent) {
  if (isIndependent) return `Independent noise at ε = ${epsilon}: choose more bands`;
  if (Number(ratio) >= 1) return `Nothing gained at ε = ${epsilon}: sums have ${ratio} times the noise`;
  return `At ε = ${epsilon}, sums have ${ratio} times the noise of independent noise`;
}
