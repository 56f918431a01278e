/** A survey with two coins, pure: what a sheet says, and what many sheets say together. */

/** One sheet: heads of the first coin, the truth; tails, what the second coin says. */
export function toss(generator, truth) {
  const [first, second] = [generator.uniform() < 0.5, generator.uniform() < 0.5];
  return {first, second, says: first ? truth : second};
}

/** Share of sheets that say yes, of people of whom a share would truly say yes. */
export function ask(generator, people, trueShare) {
  let yes = 0;
  for (let i = 0; i < people; i++) yes += toss(generator, generator.uniform() < trueShare).says;
  return yes / people;
}

/** The share of true yes, estimated from the recorded one; p is how often a sheet says the truth. */
export const estimate = (recorded, p) => (recorded - (1 - p)) / (2 * p - 1);

const word = (isYes) => (isYes ? "yes" : "no");
const side = (isHeads) => (isHeads ? "heads" : "tails");

/** What became of a toss, in words. */
export function story({first, second, says}, truth) {
  const start = `First coin: ${side(first)}. `;
  if (first) return `${start}The sheet shows the truth, ${word(says)}.`;
  const luck = says === truth ? "this time the truth as well" : "which is not the truth";
  return `${start}Second coin: ${side(second)}, so the sheet says ${word(says)}, ${luck}.`;
}

/** What somebody may conclude who sees the sheet only. */
export function conclusion({says}, {factor}) {
  return `The sheet says ${word(says)}: ${factor} times as likely if ${word(says)} is the truth, and no proof`;
}

/** The limit in odds. */
export function limits({factor, belief, epsilon}) {
  return `An even belief becomes ${belief} % at most, whatever the sheet says. That is the promise of ε = ln ${factor}, at most ${epsilon}.`;
}
