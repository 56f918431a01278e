import assert from "node:assert/strict";
import {test} from "node:test";

import {offered} from "../../../static/js/runs/log/live_run.js";
import {RunLog} from "../../../static/js/runs/log/run_log.js";
import {lengthMarks, planeMarks, reach, stepTable, stepWords} from "../../../static/js/runs/actions/step_view.js";

const STEP = {
  step: 12, records: 5, shown: 3, parameters: 270, max_grad_norm: 0.1, cut: 2,
  lengths: [0.9, 0.4, 0.1, 0.05, 0.02],
  points: [[0.9, 0], [0, -0.1], [0.01, 0.02]], factors: [1 / 9, 1, 1],
  arrows: {true: [0.3, 0], clipped: [0.04, 0], noisy: [0.04, 0.03]},
  noise_length: 0.02, noisy_length: 0.05,
};
const BOX = {width: 300, height: 200};

function run(...states) {
  const log = new RunLog();
  for (const [i, state] of states.entries()) log.add({seq: i + 1, kind: "state", data: {state}});
  return log;
}

test("the heading says what was cut and how long the noise is", () => {
  assert.equal(stepWords(STEP)[0], "Step 12: 2 of 5 gradients are cut to C = 0.1; the noise is 0.5 times as long as their mean");
  assert.ok(stepWords(STEP)[1].startsWith("Gradients of 3 of the drawn records"));
  const plain = {...STEP, max_grad_norm: null, cut: 0, noise_length: 0, factors: [1, 1, 1]};
  assert.equal(stepWords(plain)[0], "Step 12: 5 gradients, none is clipped");
});

test("the plane shows C and what is far beyond it only as far as it is useful", () => {
  assert.ok(Math.abs(reach(STEP) - 1.1 * 0.25) < 1e-12);
  assert.ok(Math.abs(reach({...STEP, max_grad_norm: 2}) - 2.2) < 1e-12);
  assert.ok(Math.abs(reach({...STEP, max_grad_norm: null}) - 0.99) < 1e-12);
});

test("all marks are inside numbers, for an empty batch too", () => {
  const empty = {...STEP, records: 0, shown: 0, cut: 0, lengths: [], points: [], factors: [], arrows: {clipped: [0, 0]}, noisy_length: null};
  for (const step of [STEP, empty, {...STEP, max_grad_norm: null}, {...STEP, lengths: [1e-9, 0]}]) {
    const text = JSON.stringify([planeMarks(BOX, step), lengthMarks(BOX, step), stepTable(step), stepWords(step)]);
    assert.doesNotMatch(text, /NaN|Infinity|undefined|null/);
  }
});

test("a run is paused or resumed by its visitor while it goes on", () => {
  const offers = (log, more = {}) => {
    const {shown, pause, resume} = offered(log, {mine: true, stopping: false, ...more});
    return shown && (pause ? "pause" : resume ? "resume" : "");
  };
  assert.equal(offers(run("queued")), false);
  assert.equal(offers(run("queued", "running")), "pause");
  assert.equal(offers(run("queued", "running", "paused")), "resume");
  assert.equal(offers(run("queued", "running", "paused", "queued")), "pause");
  assert.equal(offers(run("queued", "running", "done")), false);
  assert.equal(offers(run("queued", "running"), {mine: false}), false);
  assert.equal(offers(run("queued", "running"), {stopping: true}), false);
});
