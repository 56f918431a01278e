import assert from "node:assert/strict";
import {test} from "node:test";
import {pathUntil, pointsOf} from "../../../static/js/widgets/common/frames.js";

test("a line is cut at each of its points", () => {
  const line = "M1 2L3.5 -4L5 6";
  const points = pointsOf(line);
  assert.deepEqual(points, [[1, 2], [3.5, -4], [5, 6]]);
  assert.equal(pathUntil(points, 0), "M1 2");
  assert.equal(pathUntil(points, 2), line);
});
