import assert from "node:assert/strict";
import {test} from "node:test";
import {band, conclusion, marks, nearest, pointAt, pointsOf, rows, seedGroups} from "../../../static/js/charts/overlay.js";
import {AXES, CHARTS, axesOf, opened} from "../../../static/js/charts/overlay_axes.js";
import {scale} from "../../../static/js/lib/svg.js";

const evaluations = (...accuracies) => accuracies.map((test_accuracy, i) => ({step: 10 * (i + 1), epsilon: 0.5 * (i + 1), seconds: i + 1, test_accuracy, test_loss: 1 - test_accuracy}));
const run = (letter, accuracies, more = {}) => ({
  letter, seeds: "", private: true, evaluations: evaluations(...accuracies),
  steps: [{step: 1, epsilon: 0.1, seconds: 0.1, diagnostics: {clipped_fraction: 0.5}}, {step: 2, epsilon: 0.2, seconds: 0.2, diagnostics: {clipped_fraction: null}}], ...more,
});
const lines = (runs, chart = "accuracy", axis = "epsilon") => runs.map((one) => ({...one, points: pointsOf(one, chart, axis)}));
const drawn = (runs, {chart = "accuracy", axis = "epsilon", lit = "A", cursor = null} = {}) => {
  const all = lines(runs, chart, axis);
  const axes = axesOf(all, chart, axis);
  const frame = {x: scale(axes.x.range, [40, 436], {log: axes.x.log}), y: scale(axes.y.range, [256, 26]), axes, width: 500, height: 300};
  return marks({lines: all, chart, axis, lit, cursor}, frame);
};
const classes = (all, name) => all.filter((mark) => mark.name === name).map((mark) => mark.attributes.class);

test("every chart and axis reads its own numbers of the log", () => {
  const one = run("A", [0.8, 0.9]);
  assert.deepEqual(pointsOf(one, "accuracy", "epsilon").map(({x, y}) => [x, y]), [[0.5, 80], [1, 90]]);
  assert.deepEqual(pointsOf(one, "loss", "step").map(({x}) => x), [10, 20]);
  assert.deepEqual(pointsOf(one, "clipped", "seconds"), [{x: 0.1, y: 50, step: 1}]);
});

test("the axis of epsilon says what a filter had counted, for that is not spent", () => {
  const [spent, counted, bare] = [run("A", [0.8], {counted: false}), run("B", [0.9], {counted: true}), run("C", [0.9], {counted: false, private: false})];
  const words = (runs, axis = "epsilon") => drawn(runs, {axis}).filter((mark) => mark.name === "text").map(({content}) => content).join("|");
  assert.match(words([spent, bare]), /ε spent(\||$)/);
  assert.match(words([counted, bare]), /ε counted by the filter/);
  assert.match(words([spent, counted]), /ε spent, or counted by a filter/);
  assert.doesNotMatch(words([counted], "step"), /ε/);
});

test("a run without privacy has no place on the axis of epsilon", () => {
  const bare = run("A", [0.8], {private: false});
  bare.evaluations[0].epsilon = null;
  assert.deepEqual(pointsOf(bare, "accuracy", "epsilon"), []);
  assert.equal(pointsOf(bare, "accuracy", "step").length, 1);
});

test("the axes hold every point, however far the runs are apart", () => {
  for (const accuracies of [[0.1, 0.98], [0.84, 0.851], [0.5, 1], [0.9]]) {
    for (const axis of Object.keys(AXES)) {
      for (const chart of Object.keys(CHARTS)) {
        const all = lines([run("A", accuracies), run("B", accuracies.map((a) => a * 0.99))], chart, axis);
        const axes = axesOf(all, chart, axis);
        for (const {x, y} of all.flatMap(({points}) => points)) {
          assert.ok(x >= axes.x.range[0] && x <= axes.x.range[1]);
          assert.ok(axes.y.to(y) >= axes.y.range[0] - 1e-9 && axes.y.to(y) <= axes.y.range[1] + 1e-9, `${chart} ${y}`);
        }
        assert.ok(axes.y.ticks.length >= 1);
      }
    }
  }
});

test("before the first point the axes are finite", () => {
  for (const chart of Object.keys(CHARTS)) {
    for (const axis of Object.keys(AXES)) {
      const {x, y} = axesOf(lines([run("A", [], {steps: []})], chart, axis), chart, axis);
      for (const end of [...x.range, ...y.range]) assert.ok(Number.isFinite(end), `${chart} ${axis}`);
      assert.ok(x.range[0] < x.range[1] && y.range[0] < y.range[1]);
    }
  }
  assert.ok(drawn([run("A", [], {steps: []})]).length > 0);
});

test("before the first point the axes are those of the plans, or have no ticks", () => {
  const all = (chart, axis, ...plans) => axesOf(lines(plans.map((plan) => run("A", [], {steps: [], ...plan})), chart, axis), chart, axis);
  const plans = [{planned: 40, budget: 1}, {planned: 200, budget: 3}, {planned: 90, budget: null}];
  for (const chart of Object.keys(CHARTS)) {
    assert.deepEqual(all(chart, "epsilon", ...plans).x.range, [0, 3]);
    assert.deepEqual(all(chart, "step", ...plans).x.range, [0, 200]);
    assert.deepEqual(all(chart, "seconds", ...plans).x.ticks, []);
    assert.deepEqual(all(chart, "epsilon", plans[2]).x.ticks, []);
  }
  assert.deepEqual(all("loss", "epsilon", ...plans).y.ticks, []);
  assert.deepEqual(all("clipped", "step", ...plans).y.range, [0, 100]);
});

test("of runs that wait nothing is said of their gradients", () => {
  const waits = run("A", [], {steps: []});
  assert.equal(conclusion(lines([waits], "clipped"), "clipped"), "The share of clipped gradients will appear here");
  const bare = run("A", [], {steps: [{step: 1, epsilon: null, seconds: 0.1, diagnostics: {clipped_fraction: null}}]});
  assert.equal(conclusion(lines([waits, bare], "clipped"), "clipped"), "No per-record gradient was computed");
});

test("budgets far apart are read on a log axis", () => {
  const [far, near] = [run("A", [0.8]), run("B", [0.8])];
  far.evaluations[0].epsilon = 8;
  const axes = axesOf(lines([far, near]), "accuracy", "epsilon");
  assert.equal(axes.x.log, true);
  assert.deepEqual(axes.x.ticks.map(([tick]) => tick), [0.5, 1, 2, 5]);
  assert.equal(axesOf(lines([near, run("A", [0.8])]), "accuracy", "epsilon").x.log, false);
  assert.equal(axesOf(lines([far, near]), "accuracy", "step").x.log, false);
});

test("a cursor reads the last point before it and makes nothing up", () => {
  const points = [{x: 1, y: 10}, {x: 2, y: 20}];
  assert.equal(pointAt(points, 0.9), null);
  assert.equal(pointAt(points, 1.99).y, 10);
  assert.equal(pointAt(points, 2).y, 20);
  assert.equal(pointAt(points, 9).y, 20);
});

test("seeds of one configuration have a band where all of them have points", () => {
  const [a, b, c] = lines([run("A", [0.8, 0.9, 0.91], {seeds: "AB"}), run("B", [0.82, 0.88], {seeds: "AB"}), run("C", [0.5])]);
  assert.deepEqual(seedGroups([a, b, c]), [[a, b]]);
  assert.deepEqual(band([a, b]).map(({low, high}) => [low, high]), [[80, 82], [88, 90]]);
  assert.deepEqual(seedGroups([a, c]), []);
  const css = classes(drawn([a, b, c]), "path");
  assert.equal(css.filter((name) => name.startsWith("f-band")).length, 1);
  assert.ok(css.includes("f-band lit"));
});

test("one run is lit, drawn last, and runs without privacy are dashed", () => {
  const all = drawn([run("A", [0.8, 0.9]), run("B", [0.7, 0.8], {private: false})], {axis: "step"});
  const css = classes(all, "path").filter((name) => name.startsWith("line"));
  assert.deepEqual(css, ["line s-ghost thin dashed", "line s-private"]);
  const words = all.filter(({name, attributes}) => name === "text" && attributes.class === "private").map(({content}) => content);
  assert.deepEqual(words, ["A 90.0"]);
});

test("letters at the right are apart and inside, also where eight runs end in one point", () => {
  const all = drawn([..."ABCDEFGH"].map((letter) => run(letter, [0.8, 0.9])));
  const ends = all.filter(({name, content}) => name === "text" && /^[A-H] /.test(content)).map(({attributes}) => attributes.y).sort((a, b) => a - b);
  assert.equal(ends.length, 8);
  for (let i = 1; i < 8; i += 1) assert.ok(ends[i] - ends[i - 1] >= 14.9);
  assert.ok(ends.at(-1) <= 300);
});

test("the nearest run at the cursor is found by its height there", () => {
  const all = lines([run("A", [0.8, 0.9]), run("B", [0.7, 0.95])]);
  assert.equal(nearest(all, 0.6, 71, (y) => y), "B");
  assert.equal(nearest(all, 1, 91, (y) => y), "A");
  assert.equal(nearest([], 1, 91, (y) => y), null);
});

test("headings say what the chart shows", () => {
  const runs = [run("A", [0.8]), run("B", [0.825])];
  assert.equal(conclusion(lines(runs), "accuracy"), "B is at 82.5 %, 2.5 points above A");
  assert.equal(conclusion(lines(runs, "loss"), "loss"), "B has the least test loss, 0.175; A the most, 0.200");
  assert.equal(conclusion(lines(runs, "clipped"), "clipped"), "50 % of gradients are clipped at the end");
  assert.equal(conclusion(lines([run("A", [])]), "accuracy"), "Accuracy will appear here");
  const apart = [run("A", [0.8], {dataset: "mnist"}), run("B", [0.825], {dataset: "adult"}), run("C", [0.7], {dataset: "adult"})];
  assert.equal(conclusion(lines(apart), "accuracy"), "2 data sets: accuracies are not comparable");
  for (const chart of ["loss", "clipped"]) assert.match(conclusion(lines(apart, chart), chart), /^2 data sets: .* are not comparable$/);
});

test("the table has a row for each point of each run", () => {
  assert.deepEqual(rows([run("A", [0.8]), run("B", [0.7])], "accuracy"), [["A", 10, 0.5, 1, 80], ["B", 10, 0.5, 1, 70]]);
});

test("an axis that opens towards 100 has room for what is perfect", () => {
  assert.ok(Number.isFinite(opened(100)));
  assert.ok(opened(99) - opened(90) > opened(90) - opened(81));
});
