import assert from "node:assert/strict";
import {test} from "node:test";
import {contains} from "../../../static/js/pages/glossary.js";

test("an entry is found by all words of a search, in any order and case", () => {
  const entry = "Clipping bound The largest norm that a gradient keeps.";
  assert.deepEqual(["", "norm clip", "GRADIENT", "norm loss"].map((words) => contains(entry, words)), [true, true, true, false]);
});
