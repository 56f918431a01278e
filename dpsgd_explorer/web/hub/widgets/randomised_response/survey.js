/** Survey with two coins: answer on one sheet, and estimate from many sheets. Pure functions. */

/** One sheet: if the first coin shows heads, the truth; otherwise the second coin's answer. */
export function toss(generator, truth) {
  const [first, second] = [generator.uniform() < 0.5, generator.uniform() < 0.5];
  return {first, second, says: first ? truth : second};
}

/** Share of sheets with "yes", if a share `trueShare` of the people would truly say yes. */
export function ask(generator, people, trueShare) {
  let yes = 0;
  for (let i = 0; i < people; i++) yes += toss(generator, generator.uniform() < trueShare).says;
  return yes / people;
}

/** Estimated share of true yes from the recorded share; p is the probability that a sheet states the truth. */
export const estimate = (recorded, p) => (recorded - (1 - p)) / (2 * p - 1);

const word = (isYes) => (isYes ? "yes" : "no");
const side = (isHeads) => (isHeads ? "heads" : "tails");

/** Description of a toss. */
export function story({first, second, says}, truth) {
  const start = `First coin: ${side(first)}. `;
  if (first) return `${start}The sheet shows the truth, ${word(says)}.`;
  const luck = says === truth ? "this time the truth as well" : "which is not the truth";
  return `${start}Second coin: ${side(second)}, so the sheet says ${word(says)}, ${luck}.`;
}

/** Conclusion from one sheet, for an onlooker. */
export function conclusion({says}, {factor}) {
  return `The sheet says ${word(says)}: ${factor} times as likely if ${word(says)} is the truth, and no proof`;
}

/** Limit of an onlooker's belief. */
export function limits({factor, belief, epsilon}) {
  return `An even belief becomes ${belief} % at most, whatever the sheet says. That is the promise of ε = ln ${factor}, at most ${epsilon}.`;
}
