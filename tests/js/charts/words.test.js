import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion as accuracyConclusion, figure as accuracyFigure, table as accuracyTable} from "../../../static/js/charts/accuracy.js";
import {axisWords} from "../../../static/js/charts/accuracy_axis.js";
import {conclusion as normsConclusion, table as normsTable} from "../../../static/js/charts/norms.js";
import {conclusion as seriesConclusion, table as seriesTable} from "../../../static/js/charts/series.js";
import {chartPlan} from "../../../static/js/charts/plan.js";
import {announcement, status} from "../../../static/js/runs/panel/base_panel.js";
import {decimalsUp, roundUp} from "../../../static/js/lib/format.js";
import {accountantName, terms} from "../../../static/js/forms/plan_panel.js";
import {RunLog} from "../../../static/js/runs/log/run_log.js";
import {csv} from "../../../static/js/lib/svg.js";
import {LOSS, PLAN, RECORDED, color, logUpTo, logUpToStep} from "../support.js";

const done = logUpTo();
const lossConclusion = (log) => seriesConclusion("loss", LOSS, log);
const OPEN = {...PLAN, private: false, budget: null};

test("before a run the status bar says what may be spent", () => {
  const now = status(null, PLAN);
  assert.deepEqual([now.word, now.epsilon, now.budget, now.left, now.leftSteps], ["Ready", "0.00", "of 1.00", "1.00", "60 steps"]);
});

test("spent and left add up to the budget as printed, at every step", () => {
  for (let step = 1; step <= PLAN.steps; step += 1) {
    const now = status(logUpToStep(step), PLAN);
    assert.equal((Number(now.epsilon) + Number(now.left)).toFixed(2), "1.00", `step ${step}`);
  }
});

test("the state is a word and a mark", () => {
  const log = new RunLog();
  log.add({seq: 1, kind: "state", data: {state: "queued"}});
  assert.deepEqual([status(log, PLAN, {queuePosition: 3}).word, status(log, PLAN, {queuePosition: 3}).detail], ["Queued", "place 3 in line"]);
  assert.equal(status(log, PLAN, {queuePosition: 1}).detail, "next in line");
  assert.equal(status(log, PLAN, {queuePosition: 1, queuePaused: true}).detail, "paused by the operator");
  log.add({seq: 2, kind: "state", data: {state: "running"}});
  assert.equal(status(log, PLAN).word, "Starting");
  assert.equal(status(log, PLAN, {stopping: true}).word, "Stopping");
  assert.deepEqual([status(done, PLAN).word, status(done, PLAN).mark], ["Finished", "done"]);
});

test("what is computed before the next point is said until it comes", () => {
  const log = new RunLog();
  log.add({seq: 1, kind: "state", data: {state: "running"}});
  log.add({seq: 2, kind: "progress", data: {what: "features", done: 3000, total: 70000}});
  const words = "features: 3,000 of 70,000";
  assert.equal(status(log, PLAN).waits, words);
  assert.equal(announcement(log, PLAN), `Starting, ${words}.`);
  assert.notEqual(status(log, PLAN, {replaying: true}).waits, words);
  log.add({seq: 3, kind: "step", data: {step: 1, epsilon: 0.5, seconds: 1, diagnostics: {}}});
  assert.equal(status(log, PLAN).detail, "step 1 of 60");
  log.add({seq: 4, kind: "progress", data: {what: "features", done: 4000, total: 70000}});
  log.add({seq: 5, kind: "state", data: {state: "cancelled"}});
  assert.equal(status(log, PLAN).waits, "");
});

test("a failed run says why, aloud too", () => {
  const log = logUpToStep(10);
  const error = {code: "diverged", message: "The loss grew beyond all bounds; lower the learning rate."};
  log.add({seq: 1000, kind: "state", data: {state: "failed", error}});
  assert.equal(status(log, PLAN).word, "Failed");
  assert.match(announcement(log, PLAN), /^Failed\. The loss grew .* learning rate\.$/);
});

test("what is said aloud holds step, epsilon and accuracy", () => {
  assert.match(announcement(logUpToStep(30), PLAN), /^Training, step 30 of 60, ε 0\.7\d of 1\.00, accuracy 8\d\.\d %\.$/);
});

test("without privacy nothing is left and nothing is clipped", () => {
  const now = status(done, OPEN);
  assert.deepEqual([now.epsilon, now.left, now.clipped], ["∞", "–", "–"]);
});

test("headings are sentences with the number that the data has", () => {
  const [first, last] = [done.evaluations[0], done.evaluations.at(-1)];
  const reached = `${(100 * last.test_accuracy).toFixed(1)} %`;
  assert.match(accuracyConclusion(done, PLAN), new RegExp(`^${reached} at ε = 1\\.00; the second half of that ε bought`));
  const paused = logUpToStep(1);
  paused.add({seq: 1000, kind: "state", data: {state: "paused"}});
  assert.match(accuracyConclusion(paused, PLAN), new RegExp(`^${(100 * first.test_accuracy).toFixed(1)} % at ε = 0\\.\\d\\d of 1\\.00$`));
  assert.match(accuracyConclusion(done, OPEN), /^8\d\.\d % at/);
  const share = Math.round(100 * done.steps.at(-1).clipped_fraction);
  assert.equal(normsConclusion(done, PLAN), `${share} % of gradients are longer than C`);
  assert.equal(lossConclusion(done), "Training loss 0.38, test loss 0.37 after 60 steps"); // it rose on the way
});

test("losses that rose on the way, or ended above their start, are not said to fall", () => {
  const of = (losses) => ({...done, state: "done", latest: done.latest, steps: losses.map((loss) => ({loss})), evaluations: losses.map((test_loss) => ({test_loss}))});
  const falls = "Training and test loss fall together";
  const slow = Array(12).fill(0.46);
  assert.equal(lossConclusion(of([0.67, 0.6, 0.5, ...slow])), falls);
  assert.equal(lossConclusion(of([0.67, 1.05, 0.7, ...slow])), "Training loss 0.46, test loss 0.46 after 60 steps");
  assert.doesNotMatch(lossConclusion(of([0.45, 0.45, 0.45, ...slow])), /fall/);
});

test("the gain of the second half is the difference of two evaluations", () => {
  const half = done.evaluations.findLast(({epsilon}) => epsilon <= done.evaluations.at(-1).epsilon / 2);
  const gain = (100 * (done.evaluations.at(-1).test_accuracy - half.test_accuracy)).toFixed(1);
  assert.ok(accuracyConclusion(done, PLAN).endsWith(`bought ${gain} points`));
});

test("of a run that was stopped nothing is concluded but where it ended", () => {
  const log = logUpToStep(30);
  log.add({seq: 1000, kind: "state", data: {state: "cancelled"}});
  const {step, epsilon, test_accuracy} = log.evaluations.at(-1);
  const said = accuracyConclusion(log, PLAN);
  assert.ok(step < 30);
  assert.equal(said, `${(100 * test_accuracy).toFixed(1)} % at ε = ${roundUp(epsilon)}, measured at step ${step}; the run ended after 30 of 60 steps`);
  const at = logUpToStep(step);
  at.add({seq: 1000, kind: "state", data: {state: "cancelled"}});
  assert.match(accuracyConclusion(at, PLAN), new RegExp(`, where the run ended after ${step} of 60 steps$`));
});

const BUDGET = {...PLAN, accountant: "filter"};

function filtered(step, state) {
  const log = logUpToStep(step);
  log.phase = {...log.phase, filter: {epsilon: PLAN.budget}};
  log.add({seq: 1000, kind: "state", data: {state}});
  return log;
}

test("of a run with a budget for changes only the whole budget is claimed, before its end what was counted", () => {
  const reached = `${(100 * logUpToStep(30).evaluations.at(-1).test_accuracy).toFixed(1)} %`;
  const counted = decimalsUp(logUpToStep(30).evaluations.at(-1).epsilon, 2);
  assert.equal(accuracyConclusion(filtered(30, "paused"), BUDGET), `${reached}; the filter has counted ε = ${counted} of 1.00`);
  assert.equal(accuracyConclusion(filtered(30, "done"), BUDGET), `${reached} within the budget ε = 1.00`);
  assert.match(accuracyConclusion(filtered(30, "cancelled"), BUDGET), /within the budget ε = 1\.00, measured at step \d+; the run ended after 30 of 60 steps$/);
  for (const state of ["done", "cancelled", "failed"]) {
    const now = status(filtered(30, state), BUDGET);
    assert.deepEqual([now.epsilon, now.budget, now.left], ["1.00", "of 1.00", "0.00"], state);
  }
  assert.match(status(filtered(30, "running"), BUDGET).budget, /^counted of 1\.00$/);
  assert.match(announcement(filtered(30, "paused"), BUDGET), /ε 0\.\d\d counted of 1\.00/);
  assert.equal(axisWords("epsilon", BUDGET), "ε counted by the filter");
  assert.equal(axisWords("epsilon", PLAN), "ε spent");
});

test("of a run that goes on or was stopped no heading judges, at any step and in any state", () => {
  const judging = /bought|nothing|too bold|fall together|stays .* above/;
  for (let step = 1; step <= PLAN.steps; step += 1) {
    for (const state of ["running", "cancelled", "failed", "interrupted"]) {
      const log = logUpToStep(step);
      log.add({seq: 1000, kind: "state", data: {state}});
      assert.doesNotMatch(accuracyConclusion(log, PLAN), judging, `${state}, ${step}`);
      assert.doesNotMatch(lossConclusion(log), judging, `${state}, ${step}`);
    }
  }
});

test("a count's claim is said once", () => {
  const catalogue = {accountants: {exact: "Exact", rdp: "Rényi (RDP)"}, claims: {exact: "exact", rdp: "bound"}};
  assert.equal(accountantName("exact", catalogue), "Exact");
  assert.equal(accountantName("rdp", catalogue), "Rényi (RDP): bound");
  const said = (accountant, status) => terms({private: true, delta: 1e-5, neighboring_relation: "add_or_remove_one", sampling_words: "Poisson sampling", accountant, status}, catalogue);
  assert.ok(said("exact", "exact").endsWith("Poisson sampling; accountant: Exact"));
  assert.ok(said("rdp", "bound").endsWith("Poisson sampling; accountant: Rényi (RDP), bound"));
});

test("after every event of a run, bar, label and charts say the same, and headings have numbers only where it rests", () => {
  const log = new RunLog();
  const view = {plan: PLAN, axis: "epsilon", range: [75, 90], first_epsilon: null, seconds: 3, size: {width: 900, height: 300}};
  for (const event of RECORDED.events) {
    log.add(event);
    const bar = status(log, PLAN);
    const label = accuracyFigure({...view, evaluations: log.evaluations}, color).layout.annotations.find(({text}) => text.startsWith("private, "));
    assert.equal(label?.text ?? "private, –", `private, ${bar.accuracy}`);
    const share = log.steps.findLast((step) => step.clipped_fraction !== null)?.clipped_fraction;
    assert.equal(bar.clipped, share === undefined ? "–" : `${Math.round(100 * share)} %`);
    const headings = [accuracyConclusion(log, PLAN), normsConclusion(log, PLAN), lossConclusion(log)];
    if (log.isFinal) assert.ok(headings[0].startsWith(bar.accuracy) && headings[1].startsWith(bar.clipped), headings.join());
    else for (const heading of headings) assert.doesNotMatch(heading, /\d/);
  }
  assert.ok(log.isFinal);
});

test("a run that has no step for a while says what it waits for", () => {
  const log = new RunLog();
  log.add({seq: 1, kind: "state", data: {state: "running"}});
  assert.equal(status(log, PLAN).detail, "step 0 of 60");
  const waits = [
    [{what: "torch", seconds: 3.2}, "loading torch, about 4 s"],
    [{what: "torch", seconds: null}, "loading torch"],
    [{what: "processor", share: 0.314, load: 6}, "waiting for the processor, it has 31 % of a core"],
    [{what: "features", done: 256, total: 70000}, "features: 256 of 70,000"],
    [{what: "preparation"}, "preparing, checking the model"],
    [{what: "something a later server says"}, ""],
  ];
  for (const [i, [data, said]] of waits.entries()) {
    log.add({seq: 2 + i, kind: "progress", data});
    assert.equal(status(log, PLAN).waits, said);
  }
  log.add({seq: 20, kind: "step", data: {step: 1, epsilon: 0.5, seconds: 1, diagnostics: {}}});
  assert.equal(status(log, PLAN).detail, "step 1 of 60");
  log.add({seq: 21, kind: "progress", data: {what: "step"}});
  assert.equal(status(log, PLAN).waits, "a long step");
});

test("headings stand before there is data", () => {
  const log = new RunLog();
  for (const words of [accuracyConclusion(log, PLAN), normsConclusion(log, PLAN), lossConclusion(log)]) {
    assert.ok(words.length > 10 && !/undefined|NaN/.test(words));
  }
});

test("a table holds every point that its chart shows", () => {
  const tables = [accuracyTable(done, PLAN), seriesTable(LOSS, done), normsTable(done)];
  const [accuracy, loss, norms] = tables;
  assert.equal(accuracy.rows.length, done.evaluations.length);
  assert.equal(loss.values.length, done.steps.length);
  assert.equal(norms.rows.length, done.phase.norm_edges.length - 1);
  for (const {names, heads, values} of tables) {
    assert.equal(heads.length, names.length);
    for (const row of values) assert.equal(row.length, names.length);
  }
});

test("an epsilon in a table is rounded up", () => {
  const row = accuracyTable(done, PLAN).rows[3];
  assert.ok(Number(row[1]) >= done.evaluations[3].epsilon);
});

test("CSV quotes what needs it and leaves numbers whole", () => {
  assert.equal(csv(["a", "b"], [[0.1234567890123, null], ['say "x", y', 2]]), 'a,b\r\n0.1234567890123,\r\n"say ""x"", y",2\r\n');
});

test("the status bar adds up for a budget of a millionth too", () => {
  const plan = chartPlan({private: true, epsilon: 1e-6, last_step: 5, steps: 5, epsilon_axis: {budget: 1e-6, budget_text: "0.0000010", digits: 7, ticks: []}}, {dataset: "none"}, {data_sets: {}});
  for (const epsilon of [0, 1.234e-9, 3.14159e-7, 1e-6]) {
    const {epsilon: spent, left} = status({state: "running", latest: {step: 1, epsilon}, steps: [], secondsLeft: () => null}, plan);
    assert.ok(Number(spent) >= epsilon && Number(spent) - epsilon < 1e-7 + 1e-20, spent);
    assert.equal((Number(spent) + Number(left)).toFixed(7), "0.0000010", spent);
  }
});
