import assert from "node:assert/strict";
import {test} from "node:test";
import {wrapped} from "../../../static/js/lib/picture.js";

test("a long title is cut between words into lines that fit", () => {
  assert.deepEqual(wrapped("one two three", 7), ["one two", "three"]);
  assert.deepEqual(wrapped("unbreakable word", 4), ["unbreakable", "word"]);
  assert.deepEqual(wrapped("", 4), [""]);
});
