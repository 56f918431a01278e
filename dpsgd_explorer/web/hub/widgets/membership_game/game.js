/**
 * Membership game as an immutable state, without DOM.
 *
 * @typedef {object} Game
 * @property {number[]} order indices of its records, one per round
 * @property {boolean[]} said answers of the visitor
 * @property {boolean} revealed if true, the current round shows its solution
 */

/** Random sample of `count` elements in random order; pure except for the generator. */
function drawn(generator, list, count) {
  const order = [...list];
  for (let i = 0; i < count; i++) {
    const other = i + Math.floor(generator.uniform() * (order.length - i));
    [order[i], order[other]] = [order[other], order[i]];
  }
  return order.slice(0, count);
}

/** New game with distinct records, half of them training records; pure except for the generator. @returns {Game} */
export function begin(generator, joined, rounds) {
  const places = [true, false].map((isIn) => [...joined.keys()].filter((index) => joined[index] === isIn));
  const dealt = places.flatMap((list) => drawn(generator, list, rounds / 2));
  return {order: drawn(generator, dealt, rounds), said: [], revealed: false};
}

/** Pure: the game after an answer; no change while the solution is shown. @param {Game} game */
export function answer(game, saysIn) {
  return game.revealed || isOver(game) ? game : {...game, said: [...game.said, saysIn], revealed: true};
}

/** Pure: the game at the next record; no change after the last one. @param {Game} game */
export function next(game) {
  return isOver(game) ? game : {...game, revealed: false};
}

/** Pure: true after the last answer. @param {Game} game */
export const isOver = ({order, said}) => said.length === order.length;

/** Pure: index of the current record. @param {Game} game */
export const inView = ({order, said, revealed}) => order[said.length - (revealed ? 1 : 0)];

/** Pure: record, both guesses and solution of each round. @param {Game} game */
export function rounds({order, said}, joined, {says_in}) {
  return said.map((you, i) => ({record: order[i], you, attacker: says_in[order[i]], truth: joined[order[i]]}));
}

/** Pure: number of correct guesses of the visitor and of the attacker. */
export function score(played) {
  const right = (who) => played.filter((round) => round[who] === round.truth).length;
  return {you: right("you"), attacker: right("attacker")};
}

const word = (isIn) => (isIn ? "in" : "not in");

/** Pure: question about the current record. */
export function words(game, data, model) {
  const record = inView(game);
  if (isOver(game)) return "That was the last record of this game.";
  return `This model gives the label “${data.labels[record]}” a probability of ${model.sure[record]}\u00a0%. Was the record in?`;
}

/** Pure: solution of the last round; "" before the first answer. */
export function verdict(played, data, model) {
  if (!played.length) return "The dots are models that the attacker trained, with the record and without it. Where does this model fall?";
  const {record, you, attacker, truth} = played.at(-1);
  const right = (says) => (says === truth ? "right" : "wrong");
  return `The “${data.labels[record]}” was ${word(truth)}: you are ${right(you)}, the attacker is ${right(attacker)}.` +
    ` Its models gave ${model.had_it[record]}\u00a0% with it and ${model.had_it_not[record]}\u00a0% without it; this model ${model.sure[record]}\u00a0%.`;
}

/** Pure: score as text. */
export function standing(played, count) {
  if (!played.length) return `Round 1 of ${count}: was this record in the training set?`;
  const {you, attacker} = score(played);
  return `${played.length === count ? "After all" : "After"} ${played.length} ${played.length === 1 ? "round" : "rounds"}: you ${you}, the attacker ${attacker}`;
}

/** Pure: limits of any attack, accuracy of the model, and the score of random guesses. */
export function limits(played, data, model) {
  const rule = model.epsilon
    ? `Limits of any attack, on average over games: ${model.limits}. The model itself is right on ${model.accuracy} % of unseen records, without privacy on ${data.models[0].accuracy} %.`
    : `Without privacy nothing stops an attack. The model itself is right on ${model.accuracy} % of unseen records.`;
  const half = data.rounds / 2;
  const coin = `${half} of ${data.rounds} were in, so pressing the same button every time gets ${half}, as a coin does on average. A coin gets ${score(played).you} or more right in ${data.coin[score(played).you]} % of all games.`;
  const whole = `Over all ${data.records} records the attacker is right ${model.right} % of the time (95 % interval ${model.interval}).`;
  return played.length === data.rounds ? `${rule} ${coin} ${whole}` : rule;
}

const side = (isIn) => (isIn ? "in" : "out");

/** Pure: table of the rounds. */
export function table(played, data, model) {
  return {
    caption: "Rounds of this game",
    heads: ["round", "label", "its probability, %", "you", "attacker", "truth"],
    rows: played.map(({record, you, attacker, truth}, i) => [i + 1, data.labels[record], model.sure[record], side(you), side(attacker), side(truth)]),
    words: [3, 4, 5],
  };
}
