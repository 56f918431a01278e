import assert from "node:assert/strict";
import {test} from "node:test";
import {isLinear, positionOf, valueAt} from "../../../static/js/forms/query.js";

const EPSILON = [0.3, 1, 3, 10, 30];
const BATCH = [64, 256, 1024, 4096, 16384];
const MOMENTUM = [0, 0.25, 0.5, 0.75];

test("the marks tell the scale", () => {
  assert.equal(isLinear(MOMENTUM), true);
  assert.equal(isLinear(EPSILON), false);
});

test("a mark is met exactly, also one with many digits", () => {
  BATCH.forEach((mark, i) => assert.equal(valueAt(BATCH, i, {whole: true}), mark));
  EPSILON.forEach((mark, i) => assert.equal(valueAt(EPSILON, i), mark));
});

test("between marks the value grows by ratio, or evenly", () => {
  assert.equal(valueAt(BATCH, 0.5, {whole: true}), 130); // sqrt(64 · 256) = 128, two digits
  assert.equal(valueAt(EPSILON, 2.5), 5.5); // sqrt(3 · 10) = 5.48
  assert.equal(valueAt(MOMENTUM, 1.5, {step: 0.05}), 0.4); // 0.375 to the nearest 0.05
});

test("a value finds its place, and one beyond the marks stands at the end", () => {
  assert.equal(positionOf(EPSILON, 3), 2);
  assert.equal(positionOf(EPSILON, 500), 4);
  assert.equal(positionOf(EPSILON, 0.01), 0);
  assert.ok(Math.abs(positionOf(EPSILON, Math.sqrt(3)) - 1.5) < 1e-12);
  assert.ok(Math.abs(positionOf(MOMENTUM, 0.6) - 2.4) < 1e-12);
});

test("place and value undo each other to the two digits that are kept", () => {
  for (let i = 0; i <= 200; i += 1) {
    const value = valueAt(EPSILON, i / 50);
    assert.ok(Math.abs(positionOf(EPSILON, value) - i / 50) < 0.06, `${i}`);
  }
});
