import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, held, sentence} from "../../../static/js/widgets/people.js";

const points = [[1, "1.00", "73.2"], [5, "9.61", "99.99"]].map(([records, epsilon, right]) => ({records, epsilon, right}));
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
  assert.match(sentence(DATA, 1, 0), /^By ε alone, .* right at most 99\.99 % of the time; a coin, 50 %\. The limit of this run is lower/);
  assert.match(sentence({points: [{...points[0], right: null}]}, 0, 0), /next to no limit/);
  assert.match(sentence(DATA, 1, 1), /at most 73\.2 % .* fewer units/);
});
