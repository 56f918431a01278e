import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, held, sentence} from "../../../dpsgd_explorer/web/hub/widgets/people/widget.js";

const points = [[1, "1.00", "this run: 55.3 %; ε alone: 73.2 %"], [5, "9.61", "ε alone: 99.99 %"]].map(([records, epsilon, limits]) => ({records, epsilon, limits}));
const DATA = {target: "1", points};

test("where the person is the unit, one record’s bound holds for all of them", () => {
  assert.equal(held(DATA, 1, 0).epsilon, "9.61");
  assert.equal(held(DATA, 1, 1).epsilon, "1.00");
});

test("the heading says what a promise bounds", () => {
  assert.equal(conclusion(DATA, 1, 0), "A promise of ε = 1 per record bounds a person with 5 records by 9.61 only");
  assert.equal(conclusion(DATA, 0, 0), "A promise of ε = 1 per record bounds a person with one record by 1.00");
  assert.equal(conclusion(DATA, 1, 1), "Clipped by person, ε = 1.00 covers a person with 5 records as a whole");
});

test("the same as an attacker’s limit, and the price of the larger unit", () => {
  assert.match(sentence(DATA, 1, 0), /right at most: ε alone: 99\.99 %\. A coin: 50 %\.$/);
  assert.match(sentence({points: [{...points[0], limits: null}]}, 0, 0), /almost no limit/);
  assert.match(sentence(DATA, 1, 1), /at most: this run: 55\.3 %; ε alone: 73\.2 %\. .* fewer units/);
});
