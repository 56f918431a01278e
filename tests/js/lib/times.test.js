/** Times of runs on the visitor's own clock and calendar. */

import assert from "node:assert/strict";
import {test} from "node:test";

import {startOf} from "../../../static/js/lib/format.js";

const START = new Date(2026, 10, 22, 18, 5, 9); // in the zone of this machine, whichever it is

test("a run of today has its time, one of another day its date as well", () => {
  const seconds = START.getTime() / 1000;
  const day = (date) => new Date(2026, 10, date, 23, 59);
  assert.equal(startOf(seconds, day(22)), "18:05:09");
  assert.equal(startOf(seconds, day(23)), "22 Nov, 18:05");
  assert.equal(startOf(seconds, new Date(2027, 10, 22, 23, 59)), "22 Nov, 18:05");
});
