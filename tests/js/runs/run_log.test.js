import assert from "node:assert/strict";
import {test} from "node:test";
import {RunLog} from "../../../static/js/runs/log/run_log.js";
import {RECORDED, logUpTo, logUpToStep} from "../support.js";

test("a whole log is taken apart by kind", () => {
  const log = logUpTo();
  assert.equal(log.steps.length, RECORDED.config.steps);
  assert.equal(log.evaluations.length, RECORDED.events.filter(({kind}) => kind === "evaluation").length);
  assert.equal(log.phase.max_grad_norm, 0.5);
  assert.equal(log.state, "done");
  assert.ok(log.isFinal);
  assert.equal(log.accuracy, log.end.test_accuracy);
});

test("an event that was seen before changes nothing: a stream may repeat itself", () => {
  const log = logUpTo();
  for (const event of RECORDED.events) log.add(event);
  assert.equal(log.steps.length, RECORDED.config.steps);
});

test("diagnostics lie beside the step they belong to", () => {
  const [first] = logUpToStep(1).steps;
  const sent = RECORDED.events.find(({kind}) => kind === "step").data;
  assert.equal(first.loss, sent.diagnostics.loss);
  assert.equal(first.epsilon, sent.epsilon);
});

test("the latest point is the furthest, and 0 before any", () => {
  assert.deepEqual(new RunLog().latest, {step: 0, epsilon: 0, seconds: 0});
  assert.equal(logUpToStep(17).latest.step, 17);
});

test("time left follows the pace of the last steps", () => {
  const log = new RunLog();
  const step = (n, seconds) => log.add({seq: n, kind: "step", data: {step: n, epsilon: n, seconds, diagnostics: {}}});
  step(1, 5); // the first one waited for the data
  assert.equal(log.secondsLeft(100), null);
  for (let n = 2; n <= 50; n += 1) step(n, 5 + 0.1 * n);
  assert.ok(Math.abs(log.secondsLeft(100) - 5) < 1e-9);
});

test("a replay shows what was there after a step, and never the end before its time", () => {
  const whole = logUpTo();
  const middle = whole.evaluations[8];
  const past = whole.until(middle.step);
  assert.deepEqual(past.evaluations.at(-1), middle);
  assert.equal(past.steps.length, middle.step);
  assert.equal(past.isFinal, false);
  assert.equal(whole.until(0).phase, whole.phase);
  assert.deepEqual(whole.until(whole.latest.step).end, whole.end);
  assert.equal(whole.until(whole.latest.step).state, "done");
});
