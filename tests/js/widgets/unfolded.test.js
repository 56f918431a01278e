import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, corner, product} from "../../../dpsgd_explorer/web/hub/widgets/unfolded/widget.js";

const OUTPUT = {name: "output", lines: [[1, 2], [-3, 4]], by: [5, -6], makes: [-7, -39]};
const GRADIENT = {...OUTPUT, name: "gradient", lines: [[1, -3], [2, 4]], by: [2, 1], makes: [-1, 8]};

test("a product is printed number by number, with true minus signs", () => {
  assert.equal(product(OUTPUT, 1), "5 × −3 + (−6) × 4 = −39");
  assert.equal(product(GRADIENT, 1), "2 × 2 + 1 × 4 = 8");
});

test("the heading names the position and its column, or the kernel's entry and its row", () => {
  assert.equal(conclusion(OUTPUT, 0), "At position 1 the kernel covers the pixels of column 1 and computes entry 1 of the output: −7");
  assert.equal(conclusion(GRADIENT, 1), "Entry 2 of the kernel was multiplied by the pixels of row 2, and its gradient for this record is 8");
});

test("entries are counted row by row", () => {
  assert.deepEqual([0, 1, 2, 3].map((place) => corner(place, 2)), [[0, 0], [0, 1], [1, 0], [1, 1]]);
  assert.deepEqual(corner(5, 3), [1, 2]);
});
