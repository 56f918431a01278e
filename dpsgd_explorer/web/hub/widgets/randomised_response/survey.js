/** Survey with two coins: answer on one sheet, and estimate from many sheets. Pure functions. */

/** One sheet: if the first coin shows heads, the truth; otherwise the second coin's answer. */
export function toss(generator, truth) {
  const [first, second] = [generator.uniform() < 0.5, generator.uniform() < 0.5];
  return sheet({first, second}, truth);
}

/** Outcomes of the coins, in the order of the control's values; none before the toss. */
export const OUTCOMES = [null, {first: true, second: null}, {first: false, second: true}, {first: false, second: false}];

/** The sheet for given coins; its answer is null if it states a truth that nobody has given. */
export function sheet(coins, truth) {
  return coins && {...coins, says: coins.first ? truth : coins.second};
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
  if (says === null) return `${start}The sheet shows the truth.`;
  if (first) return `${start}The sheet shows the truth, ${word(says)}.`;
  if (truth === null) return `${start}Second coin: ${side(second)}, so the sheet says ${word(says)}, whatever the truth is.`;
  const luck = says === truth ? "this time the truth as well" : "which is not the truth";
  return `${start}Second coin: ${side(second)}, so the sheet says ${word(says)}, ${luck}.`;
}

/** Conclusion from one sheet, for an onlooker. */
export function conclusion({says}, {factor}) {
  if (says === null) return "The sheet shows the truth, but nobody else knows that it does";
  return `The sheet says ${word(says)}: ${factor} times as likely if ${word(says)} is the truth, and no proof`;
}

/** Limit of an onlooker's belief. */
export function limits({factor, belief, epsilon}) {
  return `An even belief becomes ${belief} % at most, whatever the sheet says. That is the promise of ε = ln ${factor}, at most ${epsilon}.`;
}
