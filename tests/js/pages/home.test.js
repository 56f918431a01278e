import assert from "node:assert/strict";
import {test} from "node:test";
import {isDue, said} from "../../../static/js/pages/home.js";
import {conclusion, isMerged} from "../../../dpsgd_explorer/web/hub/widgets/noise/widget.js";

const level = {noise: "8", limit: "53.0", accuracy: "97.6", epsilon: "0.54"};

test("a first visit is due while nothing is stored, whatever else is", () => {
  assert.deepEqual([null, "done", "", "{", "2"].map(isDue), [true, false, false, false, false]);
});

test("only the steps that ask for something have no button, and the ratio is said with the numbers shown", () => {
  assert.deepEqual([0, 1, 2, 3, 4].map((step) => said(step, level)[1]), ["Start", null, "Ask me", null, "Close"]);
  assert.match(said(2, level)[0], /this run is right at most 53.0 times in 100.*right on 97.6 of 100.*privacy comes from the ratio/);
});

test("worlds count as merged near a coin, and the sentence quotes the level", () => {
  assert.deepEqual(["76.1", "55.1", "55.0", "50.2"].map((limit) => isMerged({limit})), [false, false, true, true]);
  assert.equal(conclusion(level), "At σ = 8 the model is right on 97.6 of 100 unseen records. An attacker who guesses whether one record was in this run is right at most 53.0 times in 100");
});
