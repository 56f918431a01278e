/**
 * Largest hit rate of any attack on this run at a given rate of false alarms f. The server computed the lines [e^ε',
 * δ(ε')] and rounded them up: each bounds the hit rate by e^ε' f + δ' and, with the worlds exchanged, by 1 − e^−ε' (1
 * − δ' − f). The smallest bound counts.
 */
export function mostHits(lines, falseAlarms) {
  let most = 1;
  for (const [slope, delta] of lines) {
    most = Math.min(most, slope * falseAlarms + delta, 1 - (1 - delta - falseAlarms) / slope);
  }
  return Math.max(most, falseAlarms);
}
