import assert from "node:assert/strict";
import {test} from "node:test";
import {cardAt} from "../../../static/js/forms/presets.js";

/** Cards in rows, the last row not full; or, with `down`, in columns. */
const cards = (count, columns, down = false) => Array.from({length: count}, (_, i) => (down ? {x: 170 * Math.floor(i / 2), y: 63 * (i % 2)} : {x: 170 * (i % columns), y: 63 * Math.floor(i / columns)}));

test("arrow keys lead to the neighbour in the row or column, and stop at the edges", () => {
  const wide = cards(11, 6);
  const walk = (from, ...keys) => keys.reduce((at, key) => cardAt(wide, at, key), from);
  assert.equal(walk(0, "ArrowRight"), 1);
  assert.equal(walk(0, "ArrowDown"), 6);
  assert.equal(walk(1, "ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"), 1);
  assert.equal(walk(5, "ArrowRight"), 5);
  assert.equal(walk(5, "ArrowDown"), 5); // below it is no card
  assert.equal(walk(0, "ArrowLeft"), 0);
  assert.equal(walk(3, "Home"), 0);
  assert.equal(walk(3, "End"), 10);
  assert.equal(cardAt(wide, 3, "Enter"), null);
});

test("in two rows that scroll, the next card of a row is two further in the list", () => {
  const narrow = cards(12, 0, true);
  assert.equal(cardAt(narrow, 0, "ArrowRight"), 2);
  assert.equal(cardAt(narrow, 0, "ArrowDown"), 1);
  assert.equal(cardAt(narrow, 3, "ArrowUp"), 2);
});
