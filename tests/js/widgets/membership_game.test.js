import assert from "node:assert/strict";
import {test} from "node:test";
import {Generator} from "../../../static/js/widgets/common/random.js";
import {answer, begin, inView, isOver, limits, next, rounds, score, standing, table, verdict, words} from "../../../dpsgd_explorer/web/hub/widgets/membership_game/game.js";

const JOINED = [true, false, true, false];
const MODEL = {epsilon: "1.00", most: 0.5618, limits: "this run: 56.2 %; ε alone: 73.2 %", right: "51.0", interval: "46.9 to 55.1", accuracy: "60.0", sure: ["90.0", "80.0", "70.0", "60.0"], had_it: ["99.0", "98.0", "97.0", "96.0"], had_it_not: ["50.0", "51.0", "52.0", "53.0"], says_in: [true, true, false, false]};
const DATA = {rounds: 3, labels: [7, 1, 4, 9], joined: JOINED, coin: ["100.0", "87.5", "50.0", "12.5"], records: 600, models: [{accuracy: "81.0"}]};

const game = (order, said = [], revealed = false) => ({order, said, revealed});

test("a game has different records, half of them in at no fixed place, and another game others", () => {
  const generator = new Generator(1);
  const joined = Array.from({length: 24}, (_, i) => i % 3 === 0);
  const orders = Array.from({length: 40}, () => begin(generator, joined, 10).order);
  for (const order of orders) {
    assert.equal(new Set(order).size, 10);
    assert.equal(order.filter((place) => joined[place]).length, 5);
  }
  assert.equal(new Set(orders.flat()).size, 24);
  assert.equal(new Set(orders.map(String)).size, 40);
  for (let round = 0; round < 10; round++) {
    const share = orders.filter((order) => joined[order[round]]).length;
    assert.ok(share > 8 && share < 32, `${share} of 40 in at round ${round}`);
  }
});

test("an answer is given once a round, and none after the last", () => {
  const first = answer(game([2, 0]), true);
  assert.deepEqual(first, game([2, 0], [true], true));
  assert.equal(answer(first, false), first);
  assert.equal(inView(first), 2);
  const second = next(first);
  assert.equal(inView(second), 0);
  const last = answer(second, false);
  assert.ok(isOver(last));
  assert.equal(next(last), last);
  assert.equal(answer(last, true), last);
  assert.equal(inView(last), 0);
});

test("both are scored against the coins, by record and not by round", () => {
  const played = rounds(game([3, 0, 1], [false, false, false]), JOINED, MODEL);
  assert.deepEqual(played.map(({record, attacker, truth}) => [record, attacker, truth]), [[3, false, false], [0, true, true], [1, true, false]]);
  assert.deepEqual(score(played), {you: 2, attacker: 2});
  assert.deepEqual(table(played, DATA, MODEL).rows[2], [3, 1, "80.0", "out", "in", "out"]);
  assert.equal(standing(played, 3), "After all 3 rounds: you 2, the attacker 2");
  assert.equal(standing([], 3), "Round 1 of 3: was this record in the training set?");
});

test("what a record's own models say is seen after the answer only", () => {
  const asked = game([2, 0, 1]);
  assert.match(words(asked, DATA, MODEL), /label “4” a probability of 70.0\s%. Was the record in/);
  assert.doesNotMatch(words(asked, DATA, MODEL), /97.0|attacker/);
  assert.doesNotMatch(verdict([], DATA, MODEL), /97.0|52.0/);
  const played = rounds(answer(asked, false), JOINED, MODEL);
  assert.match(verdict(played, DATA, MODEL), /was in: you are wrong, the attacker is wrong\. .* 97.0\s% with it and 52.0\s% without it; this model 70.0\s%/);
});

test("the limit is of the private model alone, and a coin's luck comes with the end", () => {
  const played = rounds(game([3, 0, 1], [false, true, false]), JOINED, MODEL);
  assert.match(limits(played, DATA, MODEL), /^Limits of any attack, .*: this run: 56.2 %; ε alone: 73.2 %\. .* right on 60.0 % .* without privacy on 81.0 %.*A coin gets 3 or more right in 12.5 % .*all 600 records .* right 51.0 % of the time \(95 % interval 46.9 to 55.1\)/);
  assert.doesNotMatch(limits(played.slice(0, 2), DATA, MODEL), /coin/);
  const open = limits(played, DATA, {...MODEL, epsilon: null});
  assert.match(open, /nothing stops/);
  assert.doesNotMatch(open, /56.2|ε =/);
});
