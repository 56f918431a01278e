import assert from "node:assert/strict";
import {test} from "node:test";
import {ClassLog} from "../../../dpsgd_explorer/web/classes/class_log.js";

const inRoster = (key, more = {}) => ({key, label: key, private: true, counted: false, planned: 4, budget: 1, drawn: true, dataset: "Adult", ...more});
const evaluation = (id, run_id, seq) => ({id, run_id, seq, kind: "evaluation", data: {step: seq, epsilon: 0.1 * seq, seconds: seq, test_accuracy: 0.8}});
const ends = (id, run_id, seq) => ({id, run_id, seq, kind: "state", data: {state: "done"}});

test("events of a run that is not on the roster yet are stored", () => {
  const log = new ClassLog();
  log.take([inRoster("a")]);
  log.add(evaluation(7, "b", 1));
  assert.deepEqual(log.lines("Adult").map(({key}) => key), ["a"]);
  log.take([inRoster("b"), inRoster("a")]);
  assert.deepEqual(log.lines("Adult").map(({key, evaluations}) => [key, evaluations.length]), [["b", 1], ["a", 0]]);
  assert.equal(log.last, 7);
});

test("a run that leaves the roster leaves the chart", () => {
  const log = new ClassLog();
  log.take([inRoster("a"), inRoster("b")]);
  log.take([inRoster("b")]);
  assert.deepEqual(log.lines("Adult").map(({key}) => key), ["b"]);
});

test("trainings are drawn by data set, and nothing else is", () => {
  const log = new ClassLog();
  log.take([inRoster("a"), inRoster("b", {dataset: "MNIST"}), inRoster("c", {drawn: false, dataset: "Housing"})]);
  assert.deepEqual(log.dataSets, ["Adult", "MNIST"]);
  assert.deepEqual(log.lines("MNIST").map(({key}) => key), ["b"]);
});

test("it is running until every run on the roster has ended", () => {
  const log = new ClassLog();
  log.take([inRoster("a"), inRoster("b")]);
  log.add(ends(1, "a", 1));
  assert.ok(log.isRunning);
  log.add(ends(2, "b", 1));
  assert.ok(!log.isRunning);
});
