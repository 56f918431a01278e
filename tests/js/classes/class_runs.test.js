import assert from "node:assert/strict";
import {test} from "node:test";
import {classConclusion, classMarks} from "../../../dpsgd_explorer/web/classes/class_runs.js";
import {pointsOf} from "../../../static/js/charts/overlay.js";
import {axesOf} from "../../../static/js/charts/overlay_axes.js";
import {scale} from "../../../static/js/lib/svg.js";

const evaluations = (...accuracies) => accuracies.map((test_accuracy, i) => ({step: 10 * (i + 1), epsilon: 0.5 * (i + 1), seconds: i + 1, test_accuracy}));
const run = (id, accuracies, more = {}) => ({id, letter: id, student: `Student ${id}`, private: true, counted: false, planned: 20, budget: 1, steps: [], evaluations: evaluations(...accuracies), ...more});
const lines = (runs) => runs.map((one) => ({...one, points: pointsOf(one, "accuracy", "epsilon")}));
const drawn = (runs, lit = null) => {
  const all = lines(runs);
  const axes = axesOf(all, "accuracy", "epsilon");
  return classMarks({lines: all, axis: "epsilon", lit}, {x: scale(axes.x.range, [40, 436]), y: scale(axes.y.range, [256, 26]), axes, width: 500, height: 300});
};
const curves = (marks) => marks.filter(({attributes}) => String(attributes.class).startsWith("line")).map(({attributes}) => attributes.class);
const words = (marks) => marks.filter(({name}) => name === "text").map(({content}) => content);

test("every run is a thin line, and the one that is lit stands out and is named, above the others", () => {
  const runs = [run("1", [0.8, 0.9]), run("2", [0.7, 0.85]), run("3", [])];
  assert.deepEqual(curves(drawn(runs)), ["line s-ghost thin", "line s-ghost thin"]);
  assert.deepEqual(curves(drawn(runs, "1")), ["line s-ghost thin", "line s-private"]);
  assert.ok(words(drawn(runs, "1")).includes("Student 1 90.0 %"));
  assert.ok(!words(drawn(runs, "3")).some((text) => text.startsWith("Student")));
});

test("a long name is cut and stays within the chart", () => {
  const mark = drawn([run("1", [0.8], {student: "x".repeat(30)})], "1").find(({content}) => String(content).startsWith("xxx"));
  assert.equal(mark.content, `${"x".repeat(23)}… 80.0 %`);
  assert.equal(mark.attributes["text-anchor"], "end");
});

test("forty runs of two hundred points are fewer than 120 elements", () => {
  const many = Array.from({length: 40}, (_, i) => run(String(i), Array.from({length: 200}, (_unused, j) => 0.5 + j / 500)));
  assert.ok(drawn(many, "7").length < 120);
});

test("the heading says how far the runs are apart", () => {
  assert.equal(classConclusion([]), "No training yet");
  assert.equal(classConclusion(lines([run("1", [])])), "Curves will appear here");
  assert.equal(classConclusion(lines([run("1", [0.8, 0.9]), run("2", [])])), "Student 1 is at 90.0 %");
  assert.equal(classConclusion(lines([run("1", [0.8, 0.9]), run("2", [0.7])])), "2 runs are between 70.0 and 90.0 %");
});
