/** Shares with confidence intervals, and density estimates. This module computes no privacy values. */

const Z = 1.959964; // 97.5% quantile of the standard normal distribution

/** 95% confidence interval of a share (Wilson 1927). @returns {[number, number]} */
export function interval(hits, count) {
  const share = hits / count;
  const weight = 1 + Z ** 2 / count;
  const middle = (share + Z ** 2 / (2 * count)) / weight;
  const half = (Z / weight) * Math.sqrt((share * (1 - share)) / count + Z ** 2 / (4 * count ** 2));
  return [hits === 0 ? 0 : middle - half, hits === count ? 1 : middle + half];
}

/** Mean of two shares of `count` samples each, with its 95% interval: [share, low, high]. */
export function meanOfShares(first, second, count) {
  const share = (first + second) / 2;
  const half = (Z / 2) * Math.sqrt((first * (1 - first) + second * (1 - second)) / count);
  return [share, share - half, share + half];
}

/** Kernel density estimate at the given positions: normal kernels, Silverman's bandwidth. */
export function density(values, places) {
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count);
  const width = 1.06 * deviation * count ** -0.2 || 1;
  const norm = 1 / (count * width * Math.sqrt(2 * Math.PI));
  return places.map((place) => norm * values.reduce((sum, value) => sum + Math.exp(-0.5 * ((place - value) / width) ** 2), 0));
}
