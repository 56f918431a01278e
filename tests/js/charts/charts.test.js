import assert from "node:assert/strict";
import {test} from "node:test";
import {figure as accuracy} from "../../../static/js/charts/accuracy.js";
import {axisEnd} from "../../../static/js/charts/accuracy_axis.js";
import {height} from "../../../static/js/charts/ticks.js";
import {HEIGHT, drawing, sentence} from "../../../static/js/runs/panel/budget.js";
import {figure as series} from "../../../static/js/charts/series.js";
import {bars, countTop, figure as norms, normTicks, previewEdges} from "../../../static/js/charts/norms.js";
import {labelWidth} from "../../../static/js/charts/labels.js";
import {LOSS, PLAN, SIZE, behind, color, logUpTo} from "../support.js";

const log = logUpTo();
const view = {
  evaluations: log.evaluations, plan: PLAN, axis: "epsilon", range: [75, 90], first_epsilon: log.steps[0].epsilon, seconds: 3, size: SIZE,
};
const loss = (run, plan = PLAN) => series({described: LOSS, log: run, plan, top: 1, size: SIZE}, color);
const texts = ({layout}) => layout.annotations.map(({text}) => text);

test("accuracy stands over the epsilon it cost", () => {
  const [line] = accuracy(view, color).traces;
  assert.deepEqual(line.x, log.evaluations.map(({epsilon}) => epsilon));
  assert.deepEqual(line.y, log.evaluations.map(({test_accuracy}) => height(100 * test_accuracy, view.range)));
  assert.equal(line.line.color, "--series-private");
});

test("the axis of the loss ends where the run will: at its last step, or at a wall before it", () => {
  const end = (plan) => loss(log, plan).layout.xaxis.range[1];
  assert.equal(end({...PLAN, steps: 8000, last_step: 1500}), 1500 * 1.02);
  assert.equal(end({...PLAN, steps: 520, last_step: 520}), 520 * 1.02);
});

test("each axis has its own x and an end that is known before the run", () => {
  const x = (axis) => accuracy({...view, axis}, color).traces[0].x.at(-1);
  const last = log.evaluations.at(-1);
  assert.equal(x("step"), last.step);
  assert.equal(x("epoch"), last.step * PLAN.sample_rate);
  assert.equal(x("seconds"), last.seconds);
  for (const axis of ["epsilon", "step", "epoch"]) {
    const empty = accuracy({...view, axis, evaluations: []}, color).layout.xaxis.range;
    assert.deepEqual(accuracy({...view, axis}, color).layout.xaxis.range, empty);
  }
  assert.ok(axisEnd(view) > PLAN.budget);
});

test("the budget is a wall with tinted ground behind it", () => {
  const {shapes} = accuracy(view, color).layout;
  const wall = shapes.find(({type, line}) => type === "line" && line.color === "--series-budget");
  const ground = shapes.find(({fillcolor}) => fillcolor === "--wash-budget");
  assert.deepEqual([wall.x0, wall.x1, ground.x0], [1, 1, 1]);
  assert.ok(texts(accuracy(view, color)).includes("budget ε = 1.00"));
});

test("in steps the wall stands at the last step, in seconds there is none", () => {
  const walls = (axis) => accuracy({...view, axis}, color).layout.shapes.filter(({line}) => line?.color === "--series-budget");
  assert.equal(walls("step")[0].x0, PLAN.steps);
  assert.equal(walls("seconds").length, 0);
});

test("guessing has its line where the axis reaches down to it", () => {
  const dotted = ({layout}) => layout.shapes.filter(({line}) => line.dash === "dot");
  assert.equal(dotted(accuracy(view, color))[0].y0, height(100 * PLAN.baseline, view.range));
  assert.equal(dotted(accuracy({...view, range: [80, 100]}, color)).length, 0);
});

const RECORDED_LINE = behind("recorded", {id: "recorded", points: log.evaluations});
const TWIN_LINE = behind("twin", {id: "twin", points: log.evaluations.map((point) => ({...point, epsilon: null}))});

test("other runs stand behind, thin and labelled; the twin is dashed and stands at the ε of the plan", () => {
  const {traces, layout} = accuracy({...view, evaluations: [], ghosts: [RECORDED_LINE, TWIN_LINE]}, color);
  assert.equal(traces.length, 4);
  assert.deepEqual(traces[0].y, log.evaluations.map(({test_accuracy}) => height(100 * test_accuracy, view.range)));
  assert.deepEqual(traces.slice(0, 2).map(({line}) => line.dash), ["solid", "dash"]);
  assert.ok(traces.slice(0, 2).every(({line}) => line.width < 2) && traces[2].y.length === 0);
  const [own, curve] = [traces[1].x, PLAN.curve];
  assert.ok(own.every((epsilon, i) => i === 0 || epsilon > own[i - 1]));
  assert.equal(own.at(-1), curve.epsilon.at(-1));
  for (const label of [/^recorded, 8\d\.\d %$/, /^twin without privacy, 8\d\.\d %$/]) assert.ok(texts({layout}).some((text) => label.test(text)), label);
});

test("a picture of the chart says what its axis measures", () => {
  assert.ok(texts(accuracy({...view, print: true}, color)).includes("test accuracy, %; log of the error"));
});

test("a pinned run ends where the axis does; one without ε of its own needs the plan", () => {
  const far = log.evaluations.map((point, i) => ({...point, epsilon: i}));
  const [line] = accuracy({...view, ghosts: [behind("run", {id: "far", label: "far", points: far})]}, color).traces;
  assert.ok(line.x.every((epsilon) => epsilon <= axisEnd(view)));
  const long = TWIN_LINE.points.map((point) => ({...point, step: 10 * point.step}));
  const [twin] = accuracy({...view, ghosts: [{...TWIN_LINE, points: long}]}, color).traces;
  assert.ok(twin.x.every((epsilon) => epsilon <= PLAN.curve.epsilon.at(-1)));
});

test("on an axis of all accuracies every point has its place on it, and the last ones are told apart", () => {
  const from = (...shares) => shares.map((test_accuracy, i) => ({...log.evaluations[0], test_accuracy, step: i + 1, epsilon: (i + 1) / 10}));
  const {traces, layout} = accuracy({...view, range: [0, 99.5], evaluations: from(0, 0.098, 0.5, 0.9, 0.99, 1)}, color);
  const {y} = traces[0];
  const [foot, top] = layout.yaxis.range;
  assert.ok(y.every((value) => value >= foot && value <= top), String(y));
  assert.ok(Math.abs(y[4] - y[3] - (y[3] - y[0])) < 1e-9, "as far from 90 to 99 as from 0 to 90");
  assert.deepEqual(layout.yaxis.ticktext, ["0", "60", "80", "90", "95", "98", "99"]);
  assert.deepEqual(accuracy({...view, range: [70, 90]}, color).layout.yaxis.ticktext, ["70", "75", "80", "85", "90"]);
  assert.ok(layout.yaxis.tickvals.every((value) => value >= foot && value <= top));
});

test("the recorded run stays as a ghost until the new line overtakes it", () => {
  const half = Math.floor(log.evaluations.length / 2);
  const ghost = (count) => accuracy({...view, evaluations: log.evaluations.slice(0, count), ghosts: [RECORDED_LINE]}, color);
  assert.deepEqual(ghost(0).traces[0].x, log.evaluations.map(({epsilon}) => epsilon));
  assert.deepEqual(ghost(half).traces[0].x, log.evaluations.slice(half).map(({epsilon}) => epsilon));
  assert.ok(texts(ghost(half)).some((text) => text.startsWith("recorded, ")));
  const closer = log.evaluations.map((point) => ({...point, epsilon: point.epsilon * (1 - 1e-9)}));
  const over = accuracy({...view, evaluations: closer, ghosts: [RECORDED_LINE]}, color);
  assert.equal(over.traces.length, 2);
  assert.ok(!texts(over).some((text) => text.startsWith("recorded")));
});

test("without privacy the line is the twin's and nothing is spent", () => {
  const plan = {...PLAN, private: false, budget: null, ticks: []};
  const open = accuracy({...view, plan, axis: "step"}, color);
  assert.deepEqual([open.traces[0].line.color, open.traces[0].line.dash], ["--series-twin", "dash"]);
  assert.equal(open.layout.shapes.some(({line}) => line.color === "--series-budget"), false);
});

test("no chart has more than two traces beside its ghosts or a thousand points a trace", () => {
  const many = Array.from({length: 5000}, (_, i) => ({...log.evaluations[0], step: i + 1, loss: i % 7}));
  const figures = [
    accuracy({...view, evaluations: many}, color),
    loss({steps: many, evaluations: many.slice(0, 200)}),
  ];
  for (const {traces} of figures) {
    assert.ok(traces.length <= 2);
    assert.ok(Math.max(...traces.map(({x}) => x.length)) <= 1000);
  }
});

test("no text carries a tag: it would become a style attribute", () => {
  const figures = [accuracy(view, color), loss(log), norms(normsView(), color)];
  for (const text of figures.flatMap(texts)) assert.doesNotMatch(text, /<(?!br>)/);
});

function normsView(step = log.steps.at(-1)) {
  return {
    edges: log.phase.norm_edges, counts: step.norm_counts, clipped_fraction: step.clipped_fraction,
    max_grad_norm: PLAN.max_grad_norm, clipping_fn: "Abadi", top: 1000, size: SIZE,
  };
}

test("bars lie left or right of C, and a bin that holds C is parted there", () => {
  const {kept, shortened} = bars([0.01, 0.1, 1, 10], [5, 8, 2], 0.3);
  assert.deepEqual(kept.map(({from, to, count}) => [from, to, count]), [[0.01, 0.1, 5], [0.1, 0.3, 8]]);
  assert.deepEqual(shortened.map(({from, to, count}) => [from, to, count]), [[0.3, 1, 8], [1, 10, 2]]);
  assert.ok(Math.abs(kept[0].x - -1.5) < 1e-12 && Math.abs(kept[0].width - 1) < 1e-12);
});

test("the real run's bars beyond C hold its clipped share", () => {
  const {phase, steps} = log;
  const sum = (counts) => counts.reduce((total, count) => total + count, 0);
  for (const {norm_counts, clipped_fraction} of steps) {
    const {shortened} = bars(phase.norm_edges, norm_counts, phase.max_grad_norm);
    const share = sum(shortened.map(({count}) => count)) / sum(norm_counts);
    assert.ok(Math.abs(share - clipped_fraction) < 1e-5);
  }
});

test("a wrong number of edges is refused", () => {
  assert.throws(() => bars([1, 2], [1, 2], 1), /expected 3 edges, got 2/);
});

test("the line stands at C on the log axis, with the shares beside it", () => {
  const {layout} = norms(normsView(), color);
  assert.equal(layout.shapes[0].x0, Math.log10(0.5));
  assert.ok(texts({layout}).includes("C = 0.5"));
  assert.ok(texts({layout}).some((text) => / % clipped$/.test(text)));
});

test("beside one another the shares need room", () => {
  const said = (width) => texts(norms({...normsView(), size: {width, height: 186}}, color)).filter((text) => / clipped$/.test(text));
  assert.deepEqual([248, 350].map((width) => said(width).length), [1, 2]);
});

test("where every gradient is normalised there is no clipped share to print", () => {
  const {layout} = norms({...normsView(), clipping_fn: "automatic"}, color);
  assert.equal(texts({layout}).some((text) => / % clipped$/.test(text)), false);
});

test("norm ticks are 1 and 3 times powers of ten", () => {
  assert.deepEqual(normTicks(0.005, 2), [0.01, 0.03, 0.1, 0.3, 1]);
});

test("where there is no range of norms there are no ticks, and no endless search for them", () => {
  const odd = [0, -1, NaN, Infinity, -Infinity, undefined, null, 1];
  for (const low of odd) {
    for (const high of odd) assert.ok(normTicks(low, high).length <= 1, `${low} to ${high}`);
  }
  assert.deepEqual(normTicks(...[previewEdges(null)[0], previewEdges(null).at(-1)]), []);
});

test("the count axis moves in round steps, and only when it must", () => {
  assert.equal(countTop([], 0, 2048), 500);
  assert.equal(countTop([0, 1545, 0], 500, 2048), 2000);
  assert.equal(countTop([0, 450, 0], 2000, 2048), 2000);
  assert.equal(countTop([0, 300, 0], 2000, 2048), 500);
});

test("an end bin that is higher than the axis is cut and says how much it holds", () => {
  const counts = [3412, 40, 80, 20];
  assert.equal(countTop(counts, 0, 640), 100);
  const bins = [3412, ...Array(38).fill(20), 150];
  const wide = {...normsView(), edges: previewEdges(0.5), counts: bins, top: 100};
  assert.ok(texts(norms(wide, color)).includes("3,412 here or below"));
  for (const width of [250, 350, 600]) {
    const {layout} = norms({...wide, size: {width, height: 186}}, color);
    const across = (at) => ((at - layout.xaxis.range[0]) / (layout.xaxis.range[1] - layout.xaxis.range[0])) * (width - 60);
    const wall = across(layout.shapes[0].x0);
    const labels = layout.annotations.filter(({text}) => /(below|above)$/.test(text));
    assert.equal(labels.length, 2, String(width));
    for (const {text, xshift} of labels) assert.ok(xshift + labelWidth(text) < wall - 3 || xshift > wall + 3, `${text} on the wall at ${width} px`);
  }
  assert.ok(!texts(norms({...wide, top: 5000}, color)).some((text) => text.includes("here or")));
});

test("the gauge is filled to what is spent, hatched for the next epoch, and ends at the wall", () => {
  const place = {plan: PLAN, width: 800, margin: {l: 40, r: 20}};
  const items = drawing({...place, epsilon: 0.5, next: 0.75});
  const box = (name) => items.find(({attributes}) => attributes.class === name).attributes;
  const [rail, spent, next] = [box("f-sunken"), box("f-budget"), box("f-wash-budget")];
  assert.ok(Math.abs(spent.width / rail.width - 0.5) < 1e-9);
  assert.ok(Math.abs(next.x - (spent.x + spent.width)) < 1e-9 && Math.abs(next.width / rail.width - 0.25) < 1e-9);
  assert.equal(box("line s-budget").d, `M${rail.x + rail.width} 0V19`);
  assert.ok(items.every(({attributes}) => (attributes.y ?? 0) <= HEIGHT));
});

test("the gauge's scale is the chart's", () => {
  const items = drawing({plan: PLAN, epsilon: 0, next: null, width: 844, margin: {l: 44, r: 16}});
  const end = items.find(({attributes}) => attributes.class === "line s-budget").attributes.d;
  const x = 44 + (1 / axisEnd(view)) * (844 - 44 - 16);
  assert.ok(end.startsWith(`M${x} `));
});

test("the gauge says what it shows", () => {
  assert.equal(sentence({plan: PLAN, epsilon: 0.5149}), "ε spent: 0.52 of 1.00.");
});
