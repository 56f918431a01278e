/** A step of a real network, in lengths: what its arrows are cannot be drawn in a plane. */

const degrees = (cosine) => (Math.acos(Math.min(1, Math.max(-1, cosine))) * 180) / Math.PI;

/** Pure: a recorded value at any C between the recorded ones, on logarithmic scales. */
function between(bounds, values, bound) {
  const last = bounds.length - 1;
  const at = bounds.findIndex((value) => value >= bound);
  if (at <= 0) return values[at === 0 ? 0 : last];
  const part = Math.log(bound / bounds[at - 1]) / Math.log(bounds[at] / bounds[at - 1]);
  return values[at - 1] * (values[at] / values[at - 1]) ** part;
}

/**
 * Pure: what the step would be with this C. The noise in d directions is σC√d long, and nearly at right angles
 * to every direction that is fixed beforehand.
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
