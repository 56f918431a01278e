import assert from "node:assert/strict";
import {test} from "node:test";
import {memoryText, stages} from "../../../static/js/forms/plan_panel.js";

const CONV = {kind: "Conv2d", output_shape: [16, 14, 14], parameters: 1040, norm_method: "instantiate", reason: "fewer multiply-adds"};
const LAST = {kind: "Linear", output_shape: [10], parameters: 31370, norm_method: "", reason: ""};

test("a record goes through every layer, as wide as it has values", () => {
  const found = stages([CONV, LAST], {input_shape: [1, 28, 28], fixed: null, isPrivate: true});
  assert.deepEqual(found.map(({name}) => name), ["Record", "Conv2d → 16 × 14 × 14", "Linear → 10"]);
  assert.equal(found[0].detail, "28 × 28");
  assert.equal(found[1].detail, "1,040 parameters; norm of its gradients (instantiated): fewer multiply-adds");
  assert.match(found[2].detail, /chooses$/);
  assert.equal(found[1].to, 1);
  assert.ok(found[2].to < found[0].from && found[0].from < 1);
  found.slice(1).forEach(({from}, i) => assert.equal(from, found[i].to));
});

test("fixed features are a stage of their own, and without privacy nothing is clipped", () => {
  const found = stages([LAST], {input_shape: [1, 28, 28], fixed: [25, 7, 7], isPrivate: false});
  assert.deepEqual(found.map(({kind}) => kind), ["record", "fixed", "learned"]);
  assert.equal(found[2].detail, "31,370 parameters");
  assert.equal(stages([{...LAST, output_shape: [1]}], {input_shape: [1], fixed: null, isPrivate: false})[1].to, 1);
});

test("memory is said in a unit that one can read, or not at all", () => {
  assert.match(memoryText(46_702_600, 512), /512 records needed 47 MB/);
  assert.match(memoryText(16_400, 512), /needed 16 kB/);
  assert.equal(memoryText(null, null), "");
});
