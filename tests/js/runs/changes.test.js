import assert from "node:assert/strict";
import {test} from "node:test";

import {COVERED, changesSaid, inForce, offer} from "../../../static/js/runs/actions/mid_run.js";
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

const BUDGET = {...CONFIG, filter_epsilon: 4, target_epsilon: 3, noise_multiplier: null};

function counted(state = "running") {
  const log = run(state);
  Object.assign(log.phase, {noise_multiplier: 1.2344, expected_batch_size: 256, steps: 300});
  log.add({seq: 3, kind: "phase", data: {...log.phase, step: 7, noise_multiplier: 1.5, changes: {noise_multiplier: 1.5}}});
  return log;
}

test("what enters ε is priced by the server, and offered with a budget only", () => {
  assert.deepEqual(offer("steps", "250", BUDGET, counted()), {value: 250, words: "300 in this run → 250 from its next step.", isAllowed: true, isPriced: true});
  assert.equal(offer("noise_multiplier", "1.5", BUDGET, counted()), null);
  assert.equal(offer("expected_batch_size", "256", BUDGET, counted()), null);
  const refused = offer("steps", "250", {...BUDGET, filter_epsilon: null}, counted());
  assert.equal(refused.isAllowed, false);
  assert.match(refused.words, /no budget for changes.*set a budget for changes before the next run/);
  assert.equal(offer("noise_multiplier", "2", {...BUDGET, private: false}, counted()), null);
  assert.equal(offer("expected_batch_size", "64", {...BUDGET, private: false}, counted()).isAllowed, true);
});

test("a run with a budget says its guarantee and its wall, one without noise no ε", () => {
  const log = counted();
  assert.match(changesSaid(BUDGET, log), /^Changed after step 7, noise multiplier σ 1\.235 → 1\.500?\. .*budget ε = 4\.00 fixed at the start/);
  log.add({seq: 4, kind: "end", data: {step: 9, reason: "filter_epsilon"}});
  assert.match(changesSaid(BUDGET, log), /ended at its budget/);
  const longer = run();
  longer.add({seq: 3, kind: "phase", data: {step: 300, steps: 340, changes: {further_steps: 40}}});
  assert.match(changesSaid(BUDGET, longer), /^Continued after step 300 for 40 steps\. Chosen while looking.*budget ε = 4\.00 fixed at the start/);
  longer.add({seq: 4, kind: "phase", data: {step: 310, changes: {learning_rate: 2}}});
  assert.equal(changesSaid({...CONFIG, private: false}, longer), "Continued after step 300 for 40 steps; after step 310, learning rate η 8 → 2.");
});
