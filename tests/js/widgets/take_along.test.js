import assert from "node:assert/strict";
import {test} from "node:test";

import {queryOf, valueAt} from "../../../static/js/widgets/common/take_along.js";

const choices = {values: [1, 2, 16], by_place: true};
const doubled = {low: 0.25, high: 4, doublings: true};

test("a place in a list becomes the value of the list, and a value stays", () => {
  assert.equal(valueAt(2, choices), 16);
  assert.equal(valueAt(16, {...choices, by_place: false}), 16);
});

test("a logarithm becomes the value, with few digits and never outside the interval", () => {
  assert.equal(valueAt(-1, doubled), 0.5);
  assert.equal(valueAt(0.45, doubled), 1.366);
  assert.equal(valueAt(2.0000001, doubled), 4);
  assert.equal(valueAt(7.77777, {low: 0, high: 7.7776, doublings: false}), 7.7776);
});

test("a query names every control whose state is known", () => {
  const rules = {noise: [choices], record: [{low: -1, high: 1, doublings: false}, {low: 0, high: 9, doublings: false}], gone: [choices]};
  assert.equal(queryOf({noise: [2], record: [0.25, 3], gone: undefined}, rules), "noise=16&record=0.25,3");
  assert.equal(queryOf({}, {}), "");
});
