import assert from "node:assert/strict";
import {test} from "node:test";

import {conclusion, winnerWords} from "../../../static/js/runs/panel/search_words.js";

const SEARCHED = {learning_rate: {label: "Learning rate", symbol: "η"}, momentum: {label: "Momentum", symbol: ""}};

test("the winner is said by its settings, and by a dash before the end", () => {
  assert.equal(winnerWords({learning_rate: 4, momentum: 0.5}, SEARCHED), "η = 4, momentum = 0.5");
  assert.equal(winnerWords(null, SEARCHED), "–");
  assert.equal(winnerWords(undefined, SEARCHED), "–");
});

test("the heading says that nothing is shown, who won, or why nobody did", () => {
  assert.match(conclusion({end: null, isFinal: false}, SEARCHED), /^Nothing is shown before/);
  assert.match(conclusion(null, SEARCHED), /^Nothing is shown before/);
  assert.match(conclusion({end: null, isFinal: true}, SEARCHED), /ended before its winner/);
  assert.match(conclusion({end: {winner: null, test_accuracy: null}, isFinal: true}, SEARCHED), /^No winner/);
  assert.equal(conclusion({end: {winner: {learning_rate: 4}, test_accuracy: 0.843}, isFinal: true}, SEARCHED), "The winner, η = 4, reaches 84.3 %");
});
