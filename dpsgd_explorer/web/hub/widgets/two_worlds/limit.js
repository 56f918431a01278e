/**
 * The limit of any attack on this run, from lines [e^ε', δ(ε')] that the server computed and rounded up: with false alarms f
 * each allows at most e^ε' f + δ' hits, and in the other order 1 - e^-ε' (1 - δ' - f). The least is a bound.
 */
export function mostHits(lines, falseAlarms) {
  let most = 1;
  for (const [slope, delta] of lines) {
    most = Math.min(most, slope * falseAlarms + delta, 1 - (1 - delta - falseAlarms) / slope);
  }
  return Math.max(most, falseAlarms);
}
