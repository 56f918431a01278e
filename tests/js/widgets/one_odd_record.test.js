import assert from "node:assert/strict";
import {test} from "node:test";
import {within} from "../../../static/js/widgets/common/odd_record.js";
import {moved} from "../../../static/js/widgets/common/toy_problem.js";
import {comparison, conclusion, study, through} from "../../../dpsgd_explorer/web/hub/widgets/one_odd_record/widget.js";

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

test("the odd record stays on the drawing, and the others where they are", () => {
  const ends = {x_range: [-1.25, 1.25], y_range: [-3, 3]};
  assert.deepEqual(within([0.5, -2], ends), [0.5, -2]);
  assert.deepEqual(within([9, -9], ends), [1.2, -3]);
  assert.deepEqual(within([-Infinity, 9], ends), [-1.2, 3]);
  assert.deepEqual(moved({records: LINE, odd: 1}, [5, 6]), [LINE[0], [5, 6], ...LINE.slice(2)]);
});
