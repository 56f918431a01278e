/** One step of a real network, as norms: its gradients have too many dimensions for a plane. */

const degrees = (cosine) => (Math.acos(Math.min(1, Math.max(-1, cosine))) * 180) / Math.PI;

/** Pure: log-log interpolation of a recorded value between the recorded values of C. */
function between(bounds, values, bound) {
  const last = bounds.length - 1;
  const index = bounds.findIndex((value) => value >= bound);
  if (index <= 0) return values[index === 0 ? 0 : last];
  const part = Math.log(bound / bounds[index - 1]) / Math.log(bounds[index] / bounds[index - 1]);
  return values[index - 1] * (values[index] / values[index - 1]) ** part;
}

/**
 * Pure: norms and angles of the step with this C. Noise in d dimensions has the norm σC√d, and is almost orthogonal
 * to every fixed direction.
 */
export function lengthsAt({parameters, lengths, true: sum, bounds, clipped, degrees: turned, noise_multiplier: sigma}, bound) {
  const kept = between(bounds, clipped, bound);
  const angle = between(bounds, turned, bound);
  const noise = sigma * bound * Math.sqrt(parameters);
  const noisy = Math.hypot(kept, noise);
  return {
    cut: lengths.filter((length) => length > bound).length, spread: sigma * bound,
    sums: {true: sum, clipped: kept, noise, noisy},
    turns: {clipped: angle, noisy: degrees((kept * Math.cos((angle * Math.PI) / 180)) / noisy)},
  };
}
