import assert from "node:assert/strict";
import {test} from "node:test";
import {decimalsUp, duration, exponential, integer, percent, plural, roundUp, significant, unbroken} from "../../../static/js/lib/format.js";

test("an epsilon is printed at or above its value", () => {
  assert.equal(roundUp(2.3101), "2.32");
  assert.equal(roundUp(2.32), "2.32");
  assert.equal(roundUp(0), "0.00");
  assert.equal(decimalsUp(0.0003), "0.01");
  assert.equal(decimalsUp(0.00031, 4), "0.0004");
  for (let i = 0; i < 2000; i += 1) {
    const epsilon = 12.345 * Math.abs(Math.sin(i));
    assert.ok(Number(roundUp(epsilon)) >= epsilon - 1e-11, `${epsilon}`);
    assert.ok(Number(roundUp(epsilon)) < epsilon + 0.01 + 1e-11, `${epsilon}`);
  }
});

test("a small epsilon is printed to two digits, as the server prints it", () => {
  const printed = {0.00031: "0.00031", 0.003141: "0.0032", 0.00999: "0.01", 0.0101: "0.02", 0.000001: "0.000001", 9.91e-7: "0.000001", 1.2e-7: "1.2e-7", 1.21e-7: "1.3e-7", 1.1e-30: "1.1e-30", 5e-324: "5e-324"};
  for (const [epsilon, text] of Object.entries(printed)) assert.equal(roundUp(Number(epsilon)), text);
  assert.equal(roundUp(0.00031, 4), "0.0004");
  assert.equal(roundUp(0.000031, 4), "0.000031");
  assert.equal(roundUp(0.1 ** 7), "1e-7"); // 1.0000000000000004e-7
});

test("binary noise does not push an epsilon up, as in the server's rounding", () => {
  assert.equal(roundUp(0.1 + 0.2), "0.30");
  assert.equal(roundUp(1.1), "1.10");
  assert.equal(roundUp(2.9999999999999858), "3.00");
});

test("no guarantee is infinity", () => {
  assert.equal(roundUp(null), "∞");
  assert.equal(roundUp(undefined), "∞");
});

test("numbers carry units and thousands", () => {
  assert.equal(percent(0.98345), "98.3 %");
  assert.equal(percent(0.72, 0), "72 %");
  assert.equal(percent(0.9825), "98.2 %"); // ties to even, like Python
  assert.equal(percent(0.9835), "98.4 %");
  assert.equal(percent(0.1135), "11.4 %"); // 11.35 as a double is below the tie
  assert.equal(percent(-0.0135, 1), "-1.4 %");
  assert.equal(percent(1, 0), "100 %");
  assert.equal(integer(60000), "60,000");
  assert.equal(significant(0.06826666), "0.0683");
  assert.equal(significant(12260), "12,300");
  assert.equal(significant(1e-5), "1e-5");
  assert.equal(exponential(1e-5), "1e-5");
  assert.equal(plural(1, "step"), "1 step");
  assert.equal(plural(116, "step"), "116 steps");
});

test("times are those of a person", () => {
  assert.equal(duration(0.34), "0.3 s");
  assert.equal(duration(4), "4 s");
  assert.equal(duration(42.4), "42 s");
  assert.equal(duration(80), "1 min 20 s");
  assert.equal(duration(60), "1 min");
  assert.equal(duration(3000), "50 min");
});

test("a number keeps its sign on its line, as the server writes it", () => {
  assert.equal(unbroken("25 % at ε = 3, C ≥ ∞ and a = 1"), "25\u00a0% at ε\u00a0=\u00a03, C\u00a0≥\u00a0∞ and a = 1");
});
