import assert from "node:assert/strict";
import {test} from "node:test";
import {cellsOf} from "../../../static/js/forms/plan_panel.js";

test("a layer is printed with its output and its parameters", () => {
  const layers = [
    {name: "0", kind: "Conv2d", output_shape: [16, 14, 14], parameters: 1040, begins_group: true},
    {name: "", kind: "Linear", output_shape: [10], parameters: 12260, begins_group: true},
  ];
  assert.deepEqual(cellsOf(layers), [
    ["0", "Conv2d", "16 × 14 × 14", "1,040"],
    ["whole", "Linear", "10", "12,260"],
  ]);
});
