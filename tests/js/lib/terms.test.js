import assert from "node:assert/strict";
import {test} from "node:test";

import {placed} from "../../../static/js/lib/terms.js";

const card = {width: 300, height: 80};
const view = {width: 390, height: 844};

test("a card stands below its link, above it where there is no room, and within the sides", () => {
  assert.deepEqual(placed({left: 20, top: 100, bottom: 120}, card, view), {left: 20, top: 126});
  assert.deepEqual(placed({left: 20, top: 800, bottom: 820}, card, view), {left: 20, top: 714});
  assert.equal(placed({left: 380, top: 100, bottom: 120}, card, view).left, 84);
  assert.equal(placed({left: -50, top: 100, bottom: 120}, card, view).left, 6);
});

test("in a window lower than the card it is shown below, and one wider than the window from its left edge", () => {
  assert.equal(placed({left: 20, top: 30, bottom: 50}, card, {width: 390, height: 90}).top, 56);
  assert.equal(placed({left: 200, top: 30, bottom: 50}, {width: 500, height: 80}, view).left, 6);
});
