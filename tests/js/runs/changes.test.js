import assert from "node:assert/strict";
import {test} from "node:test";

import {COVERED, changesSaid, inForce, offer} from "../../../static/js/runs/actions/changes.js";
import {RunLog} from "../../../static/js/runs/log/run_log.js";

const CONFIG = {learning_rate: 8, max_grad_norm: 0.1, private: true, clipping_schedule: "constant"};

function run(state = "running") {
  const log = new RunLog();
  log.add({seq: 1, kind: "state", data: {state}});
  log.add({seq: 2, kind: "phase", data: {step: 0}});
  return log;
}

test("a field that differs from the run offers to change it, with its price and what is not covered", () => {
  const {value, words} = offer("learning_rate", "4", CONFIG, run());
  assert.equal(value, 4);
  assert.equal(words, `8 in this run → 4 from its next step. It costs no ε: the learning rate does not enter it. ${COVERED}`);
  assert.equal(offer("max_grad_norm", "0.25", CONFIG, run("paused")).value, 0.25);
});

test("nothing is offered where there is nothing to change", () => {
  for (const typed of ["8", "8.0", "", " ", "-1", "0", "abc", "1e999", "1,5"]) assert.equal(offer("learning_rate", typed, CONFIG, run()), null, typed);
  for (const state of ["queued", "done", "failed", "cancelled"]) assert.equal(offer("learning_rate", "4", CONFIG, run(state)), null, state);
  assert.equal(offer("max_grad_norm", "1", {...CONFIG, private: false}, run()), null);
  assert.equal(offer("max_grad_norm", "1", {...CONFIG, clipping_schedule: "adaptive"}, run()), null);
});

test("changes are kept in order and said with old and new", () => {
  const log = run();
  assert.equal(changesSaid(CONFIG, log), "");
  log.add({seq: 3, kind: "phase", data: {step: 12, changes: {learning_rate: 4}}});
  log.add({seq: 4, kind: "phase", data: {step: 1200, changes: {learning_rate: 2, max_grad_norm: 0.5}}});
  assert.deepEqual(inForce(CONFIG, log), {...CONFIG, learning_rate: 2, max_grad_norm: 0.5});
  assert.equal(
    changesSaid(CONFIG, log),
    `Changed after step 12, learning rate η 8 → 4; after step 1,200, learning rate η 4 → 2 and clipping bound C 0.1 → 0.5. ${COVERED}`,
  );
  assert.equal(offer("learning_rate", "2", CONFIG, log), null);
});
