import assert from "node:assert/strict";
import test from "node:test";

import {audited, conclusion, said, table, ticks, top, until} from "../../../dpsgd_explorer/web/labs/find_the_bug/bound.js";
import {moved} from "../../../dpsgd_explorer/web/labs/find_the_bug/lines.js";
import {ANOTHER_LINE, mark, parse, words} from "../../../dpsgd_explorer/web/labs/find_the_bug/score.js";
import {roundDown} from "../../../static/js/lib/format.js";

const PLAN = {promise: {epsilon: 3.9999999999996}, steps: 60};
const point = (step, epsilon_lower) => ({step, epsilon_lower, epsilon_promised: step / 15});
const POINTS = [point(6, 0.5), point(30, 3.119), point(60, 8.9199)];
const CAUGHT = {points: POINTS, refused: "", error: "", seen_by: "audit"};
const NAMES = ["a", "b", "fair"];

test("a bound is rounded down, a promise up", () => {
  assert.equal(conclusion(CAUGHT, PLAN), "Caught: ε ≥ 8.91 is proven, ε = 4.00 was promised");
  assert.deepEqual(table(CAUGHT).rows[1], [30, "3.11", "2.00"]);
  assert.equal(roundDown(0), "0.00");
  assert.equal(roundDown(2.999), "2.99");
  assert.equal(roundDown(3), "3.00");
});

test("a heading names what saw the bug", () => {
  const none = {...CAUGHT, seen_by: "nothing", points: [point(60, 1)]};
  assert.match(conclusion(none, PLAN), /^Nothing shows: ε ≥ 1\.00/);
  assert.equal(conclusion({...CAUGHT, seen_by: "engine", refused: "no"}, PLAN), "PrivacyEngine rejects the loop");
  assert.match(conclusion({points: [], refused: "", error: "shape", seen_by: "torch"}, PLAN), /PyTorch/);
  assert.equal(said({refused: "no", error: ""}).words, "no");
  assert.equal(said({refused: "", error: "shape"}).words, "shape");
  assert.equal(said(CAUGHT), null);
});

test("nothing is decided before the run has ended", () => {
  const part = until(CAUGHT, 2);
  assert.deepEqual([part.points.length, part.seen_by], [2, ""]);
  assert.match(conclusion(part, PLAN), /^After 30 steps ε ≥ 3\.11/);
  assert.equal(until(CAUGHT, 3), CAUGHT);
  const log = {phase: {refused: "no"}, evaluations: POINTS.slice(0, 1), end: null};
  assert.deepEqual(audited(log), {points: [POINTS[0]], refused: "no", error: "", seen_by: ""});
  assert.deepEqual(audited({phase: null, evaluations: [], end: null}).seen_by, "");
});

test("the axis holds promise and bounds, and has few ticks", () => {
  assert.ok(top(CAUGHT, PLAN.promise) > 8.9199);
  assert.ok(top({...CAUGHT, points: []}, PLAN.promise) > 4);
  for (const high of [4.6, 10.2, 101.7]) {
    const marks = ticks(high);
    assert.ok(marks.length >= 3 && marks.length <= 6);
    assert.ok(marks.at(-1) <= high);
  }
});

test("what is stored is read only as far as it is known", () => {
  for (const text of [null, "", "{", "[]", "null", "3"]) assert.deepEqual(parse(text, NAMES), {});
  const stored = JSON.stringify({a: "a", b: "", fair: "z", z: "a"});
  assert.deepEqual(parse(stored, NAMES), {a: "a", b: ""});
});

test("keys lead from line to line and not beyond the ends", () => {
  assert.deepEqual(["ArrowDown", "ArrowUp", "Home", "End"].map((key) => moved(key, 3, 10)), [4, 2, 0, 9]);
  assert.equal(moved("ArrowDown", 9, 10), 9);
  assert.equal(moved("ArrowUp", 0, 10), 0);
  assert.equal(moved("a", 3, 10), null);
});

test("a wrong line is a guess that found nothing, and a false alarm where nothing is wrong", () => {
  const said = parse(JSON.stringify({a: ANOTHER_LINE, fair: ANOTHER_LINE}), NAMES);
  assert.equal(words(said, NAMES, "fair"), "0 of 2 bugs found, and one false alarm; 2 of 3 loops done.");
  assert.equal(mark(said, "a"), "✗");
});

test("the score counts bugs that were found, and a false alarm", () => {
  assert.equal(words({}, NAMES, "fair"), "");
  assert.equal(words({a: "a", b: "a"}, NAMES, "fair"), "1 of 2 bugs found; 2 of 3 loops done.");
  assert.equal(words({fair: "b"}, NAMES, "fair"), "0 of 2 bugs found, and one false alarm; 1 of 3 loops done.");
  assert.equal(words({fair: "fair"}, NAMES, "fair"), "0 of 2 bugs found; 1 of 3 loops done.");
  assert.deepEqual(["a", "b", "fair"].map((name) => mark({a: "a", b: ""}, name)), ["✓", "✗", ""]);
});
