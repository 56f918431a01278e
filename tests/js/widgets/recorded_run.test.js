import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, ticks} from "../../../dpsgd_explorer/web/hub/widgets/recorded_run/widget.js";

const RUN = {steps: [1, 1500], last: 3000, spent_words: ["0.05", "0.70"], budget: "1.00", accuracy: [31.5, 97.5], twin: null};

test("a place of the run is said with what is spent, and a twin as what is not private", () => {
  assert.equal(conclusion(RUN, 1), "After 1,500 of 3,000 steps: ε = 0.70 of 1.00 spent, 97.50 of 100 unseen records right");
  assert.match(conclusion({...RUN, twin: [49.4, 98.5]}, 0), /31\.50 of 100 unseen records right; without privacy, 49\.40$/);
});

test("ticks are round and end where the axis does", () => {
  assert.deepEqual(ticks(0, 1, 6), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(80, 100, 5), [80, 85, 90, 95, 100]);
  assert.deepEqual(ticks(0, 2.999, 3), [0, 1, 2]);
});
