import assert from "node:assert/strict";
import {test} from "node:test";
import * as census from "../../../dpsgd_explorer/web/hub/widgets/census_table/widget.js";
import * as recited from "../../../dpsgd_explorer/web/hub/widgets/recited_number/widget.js";
import * as facts from "../../../dpsgd_explorer/web/hub/widgets/singled_out/widget.js";

test("a set has one bit for each of its members", () => {
  for (const {indexOf} of [census, facts]) assert.deepEqual([[], [true], [false, true], [true, true, true]].map(indexOf), [0, 1, 2, 7]);
});

test("what fits a table is said with the people whose age is certain", () => {
  assert.equal(census.conclusion(40, 1000), "40 of 1,000 blocks fit the published numbers");
  assert.match(census.conclusion(1, 1000), /^1 block of 1,000 fits/);
  const names = ["a", "b"];
  assert.match(census.sentence(names, [[0, 3], [1, 2]]), /^No age is certain/);
  assert.equal(census.sentence(names, [[0, 3], [2, 2]]), "Certain by now: the age of b.");
  assert.match(census.sentence(names, [[0, 0], [2, 2]]), /the age of each person/);
});

test("a person is found when one is left", () => {
  assert.equal(facts.conclusion(0, 900, 900), "Nothing known: 900 of 900 people are left");
  assert.equal(facts.conclusion(1, 1, 900), "1 fact known: found, as 1 of 900 people");
  assert.match(facts.sentence(2, "5.3 %"), /5\.3 % stand alone/);
});

test("a recited number is the true one, and another has a rank", () => {
  assert.equal(recited.conclusion("It is ", {number: "0042"}), "“It is 0042”");
  assert.match(recited.sentence({number: "0042", rank: 1, bits_per_byte: 0.3}, "0042", "Promised."), /^The model says her number.* Promised\.$/);
  assert.match(recited.sentence({number: "0043", rank: 1234, bits_per_byte: 0.3}, "0042", ""), /^Her number, 0042, is number 1,234 of 10,000.* 0\.30 bits per byte/);
});
