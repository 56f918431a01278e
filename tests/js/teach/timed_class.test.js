import assert from "node:assert/strict";
import {test} from "node:test";

import {told} from "../../../dpsgd_explorer/web/teach/timed_class.js";

const STEPS = [{from: 0, until: 10}, {from: 10, until: 18}, {from: 18, until: 25}];
const at = (minutes) => told(1000, 1000 + minutes * 60000, STEPS);

test("the clock names the current step and the minutes left in it", () => {
  assert.deepEqual(at(0), {words: "minute 0 of 25, 10 minutes left in this step", step: 0});
  assert.deepEqual(at(10), {words: "minute 10 of 25, 8 minutes left in this step", step: 1});
  assert.deepEqual(at(17.99), {words: "minute 17 of 25, 1 minute left in this step", step: 1});
  assert.equal(at(24.9).step, 2);
});

test("after the class no step is current, and an hour later the clock has stopped", () => {
  assert.equal(at(25).step, -1);
  assert.match(at(25).words, /over/);
  assert.equal(at(85), null);
});

test("there is no clock before the start, or with a start in the future", () => {
  assert.equal(told(null, 5000, STEPS), null);
  assert.equal(told(90000, 5000, STEPS), null);
});
