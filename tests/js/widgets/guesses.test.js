import assert from "node:assert/strict";
import {test} from "node:test";
import {distance, numberIn} from "../../../static/js/widgets/common/predict.js";
import {glide} from "../../../static/js/widgets/common/play_once.js";
import {isClose, parseGuesses} from "../../../static/js/widgets/common/score.js";
import {spans} from "../../../static/js/widgets/common/widget_parts.js";

test("the truth is the first number of an answer", () => {
  assert.deepEqual(["about 62\u00a0%", "18°", "1,832 steps", "2.60, a bound", "the same"].map(numberIn), [62, 18, 1832, 2.6, null]);
});

test("a distance is said with its side and its unit", () => {
  assert.equal(distance(48, 18, "°"), "30° too high.");
  assert.equal(distance(0.55, 0.64), "0.09 too low.");
  assert.equal(distance(61, 62, " %"), "1 point too low.");
  assert.equal(distance(81, 58, " %"), "23 points too high.");
  assert.equal(distance(13.5, 8.6, " times"), "4.9 too high.");
  assert.equal(distance(4, 4), "Exactly right.");
});

test("a guess is close within a tenth of the truth, ends included", () => {
  assert.deepEqual([[90, 100], [110, 100], [89.9, 100], [0, 0], [-9.5, -10]].map(([guess, truth]) => isClose(guess, truth)), [true, true, false, true, true]);
});

test("a score that is not one counts as none", () => {
  for (const text of [null, "{", "[true]", "null", '{"a": 1}']) assert.deepEqual(parseGuesses(text), {});
  assert.deepEqual(parseGuesses('{"a": true, "b": false, "c": "x"}'), {a: true, b: false});
});

test("a glide ends exactly at its target and never passes it", () => {
  const values = glide(1, -2, 20);
  assert.equal(values.length, 20);
  assert.equal(values.at(-1), -2);
  assert.ok(values.every((value, i) => i === 0 || value <= values[i - 1]));
});

test("passages get their colours in reading order, the rest none", () => {
  assert.deepEqual(spans("from 1.0 to 1.0 now", [["1.0", "twin"], ["1.0", "attack"], ["gone", "good"]]), [["from ", ""], ["1.0", "twin"], [" to ", ""], ["1.0", "attack"], [" now", ""]]);
});
