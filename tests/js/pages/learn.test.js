import assert from "node:assert/strict";
import {test} from "node:test";
import {currentSection, parseRead, toggled} from "../../../static/js/pages/learn.js";

test("what was read survives storage that is empty, broken or someone else's", () => {
  const known = ["intro", "parameters"];
  assert.deepEqual(parseRead(null, known), []);
  assert.deepEqual(parseRead("{", known), []);
  assert.deepEqual(parseRead('{"a": 1}', known), []);
  assert.deepEqual(parseRead("7", known), []);
  assert.deepEqual(parseRead("null", known), []);
  assert.deepEqual(parseRead('["intro", 3, "gone", "intro", null]', known), ["intro"]);
});

test("marking twice takes the mark away and leaves the others", () => {
  const once = toggled(["intro"], "parameters");
  assert.deepEqual(once, ["intro", "parameters"]);
  assert.deepEqual(toggled(once, "intro"), ["parameters"]);
});

test("the section being read is the last whose heading has passed the line", () => {
  assert.equal(currentSection([-900, -20, 300, 800], 280), 1);
  assert.equal(currentSection([-900, -20, 270, 800], 280), 2);
  assert.equal(currentSection([500, 800], 280), 0);
});
