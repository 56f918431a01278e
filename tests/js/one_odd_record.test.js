import assert from "node:assert/strict";
import {test} from "node:test";
import {comparison, conclusion, study, through} from "../../static/js/widgets/one-odd-record.js";

const LINE = [[-1, -1], [0, 0], [1, 1], [2, 2.1]];

test("a record on the line of the others leaves it, and its gradient is short", () => {
  const found = study([...LINE, [0.5, 0.5]], 4);
  assert.equal(conclusion(found), "Here it leaves the slope at 1.03");
  assert.match(comparison(found), /shorter than the longest of the others/);
});

test("a record far off moves the line, and its gradient is many times as long", () => {
  const found = study([...LINE, [2, -8]], 4);
  assert.match(conclusion(found), /^One record moves the slope from 1\.03 to −\d/);
  assert.ok(found.odd / found.longest > 20);
});

test("a guessed slope goes through the middle of the points, as the best line does", () => {
  const points = [[0, 0], [2, 4]];
  assert.deepEqual(through(points, 3), [3, -1]);
});
