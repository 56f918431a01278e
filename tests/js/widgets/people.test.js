import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, held, sentence} from "../../../dpsgd_explorer/web/hub/widgets/people/widget.js";

const points = [[1, "1.00", "this run: 55.3 %; ε alone: 73.2 %"], [5, "6.33", "this run: 75.1 %; ε alone: 99.83 %"]].map(([records, epsilon, limits]) => ({records, epsilon, limits}));
const DATA = {target: "1", points};

test("where the person is the unit, one record’s ε holds for all of them", () => {
  assert.equal(held(DATA, 1, 0).epsilon, "6.33");
  assert.equal(held(DATA, 1, 1).epsilon, "1.00");
});

test("the heading states ε for the person", () => {
  assert.equal(conclusion(DATA, 1, 0), "A promise of ε = 1 per record is ε = 6.33 for a person with 5 records");
  assert.equal(conclusion(DATA, 0, 0), "A promise of ε = 1 per record is ε = 1.00 for a person with one record");
  assert.equal(conclusion(DATA, 1, 1), "Clipped by person, ε = 1.00 covers a person with 5 records as a whole");
});

test("the same as an attacker’s limit, and the price of the larger unit", () => {
  assert.match(sentence(DATA, 1, 0), /right at most: this run: 75\.1 %; ε alone: 99\.83 %\. A coin: 50 %\.$/);
  assert.match(sentence(DATA, 1, 1), /at most: this run: 55\.3 %; ε alone: 73\.2 %\. .* fewer units/);
});
