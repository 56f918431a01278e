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

/**
 * Upper left corner, in px, of words among what no attack reaches: `clear` px from the limit of this run and from the
 * limit of the last line, ε alone. Null if no place is large enough. Limits rise to the right, so two corners decide.
 * @param {[number, number][]} lines @param {{x: (share: number) => number, y: (share: number) => number}} frame
 * @param {[number, number]} size of the words in px
 */
export function placeAbove(lines, {x, y}, [width, height], clear = 4) {
  const heightAt = (some, px) => y(mostHits(some, Math.min(Math.max((px - x(0)) / (x(1) - x(0)), 0), 1)));
  for (let top = y(1) + clear; top + height + clear <= y(0); top += 2) {
    if (Math.abs(top + height / 2 - y(0.5)) < height / 2 + clear) continue; // on the rule
    for (let left = x(0) + clear; left + width + clear <= x(1); left += 2) {
      const isAbove = (some) => heightAt(some, left + width + clear) >= top + height + clear;
      if (!isAbove(lines)) break;
      if (isAbove(lines.slice(-1)) || heightAt(lines.slice(-1), left - clear) <= top - clear) return [left, top];
    }
  }
  return null;
}
