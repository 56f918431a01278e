import assert from "node:assert/strict";
import {test} from "node:test";
import {audited} from "../../../static/js/runs/panel/base_panel.js";

test("a proven bound is rounded down beside a promise that is rounded up", () => {
  assert.equal(audited({epsilon_lower: 2.8499, epsilon_promised: 2.9961}), "Its own audit proves ε ≥ 2.84 of 3.00 promised");
  assert.equal(audited({epsilon_lower: 0, epsilon_promised: 0.00401}), "Its own audit proves ε ≥ 0.00 of 0.0041 promised");
});

test("nothing is said before the end, and of a run without canaries", () => {
  for (const one of [null, undefined]) assert.equal(audited(one), "");
});
