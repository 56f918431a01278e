import assert from "node:assert/strict";
import {test} from "node:test";
import {axesOf, linesOf, nameOf, pointsOf} from "../../../static/js/charts/runs_axes.js";
import {absent, band, conclusion, frame, groupsOf, marks, nearest, pointAt, rows} from "../../../static/js/charts/runs_chart.js";
import {labelWidth, overlap, touches} from "../../../static/js/charts/labels.js";
import {SEVERAL, chartOf, flat} from "../support.js";

const {accuracy: ACCURACY, loss: LOSS, clipped: CLIPPED, class: CLASS, sweep: SWEEP, seeds: SEEDS, twin: TWIN} = SEVERAL.charts;
const [EPSILON, STEP, SECONDS] = ACCURACY.axes;
const COMPARED = [ACCURACY, LOSS, CLIPPED];

const evaluations = (...accuracies) => accuracies.map((test_accuracy, i) => ({step: 10 * (i + 1), epsilon: 0.5 * (i + 1), seconds: i + 1, test_accuracy, test_loss: 1 - test_accuracy}));
const run = (key, accuracies, more = {}) => ({
  key, label: key, colour: "private", dashed: false, together: "", dataset: "adult", private: true, counted: false, planned: 0, budget: null, evaluations: evaluations(...accuracies),
  steps: [{step: 1, epsilon: 0.1, seconds: 0.1, diagnostics: {clipped_fraction: 0.5}}, {step: 2, epsilon: 0.2, seconds: 0.2, diagnostics: {clipped_fraction: null}}], ...more,
});
const lines = (runs, chart = ACCURACY, axis = EPSILON) => linesOf(runs, chart, axis);
const drawn = (runs, {chart = ACCURACY, axis = EPSILON, lit = "A", cursor = null, width = 500} = {}) => flat(marks(frame({runs, chart, axis, lit, cursor}, chartOf(width, chart.height))));
const classes = (all, name) => all.filter((mark) => mark.name === name).map((mark) => mark.attributes.class);
const curves = (all) => classes(all, "path").filter((css) => css?.startsWith("line "));
const words = (all) => all.filter(({name}) => name === "text").map(({content}) => content);

test("every chart and axis reads its own numbers of the log", () => {
  const one = run("A", [0.8, 0.9]);
  assert.deepEqual(pointsOf(one, ACCURACY, EPSILON).map(({x, y}) => [x, y]), [[0.5, 80], [1, 90]]);
  assert.deepEqual(pointsOf(one, LOSS, STEP).map(({x}) => x), [10, 20]);
  assert.deepEqual(pointsOf(one, CLIPPED, SECONDS), [{x: 0.1, y: 50, step: 1}]);
});

test("the axis of epsilon says what a filter had counted, for that is not spent", () => {
  const [spent, counted, bare] = [run("A", [0.8]), run("B", [0.9], {counted: true}), run("C", [0.9], {private: false})];
  assert.equal(nameOf(EPSILON, [spent, bare]), EPSILON.name);
  assert.equal(nameOf(EPSILON, [counted, bare]), EPSILON.counted);
  assert.equal(nameOf(EPSILON, [spent, counted]), EPSILON.both);
  assert.equal(nameOf(STEP, [counted]), STEP.name);
  assert.ok(words(drawn([counted])).includes(EPSILON.counted));
});

test("a run without privacy has no place on the axis of epsilon, and the chart names it", () => {
  const bare = run("A", [0.8], {private: false});
  bare.evaluations[0].epsilon = null;
  assert.deepEqual(pointsOf(bare, ACCURACY, EPSILON), []);
  assert.equal(pointsOf(bare, ACCURACY, STEP).length, 1);
  assert.match(absent(lines([bare]), ACCURACY), /^A: /);
  assert.match(absent(lines([bare, bare]), CLASS), /\b2 runs\b/);
  assert.equal(absent(lines([bare], ACCURACY, STEP), ACCURACY), "");
});

test("the axes hold every point, however far the runs are apart", () => {
  for (const accuracies of [[0.1, 0.98], [0.84, 0.851], [0.5, 1], [0.9]]) {
    for (const axis of ACCURACY.axes) {
      for (const chart of [...COMPARED, CLASS, {...SEEDS, ends: [75, 90]}]) {
        const all = lines([run("A", accuracies), run("B", accuracies.map((a) => a * 0.99))], chart, axis);
        const axes = axesOf(all, chart, axis);
        for (const {x, y} of all.flatMap(({points}) => points)) {
          assert.ok(x >= axes.x.range[0] && x <= axes.x.range[1]);
          assert.ok(axes.y.to(y) >= axes.y.range[0] - 1e-9 && axes.y.to(y) <= axes.y.range[1] + 1e-9, `${chart.name} ${y}`);
        }
        assert.ok(axes.y.ticks.length >= 1);
      }
    }
  }
});

test("before the first point the axes are those of the plans, or have no ticks", () => {
  const plans = [{planned: 40, budget: 1}, {planned: 200, budget: 3}, {planned: 90}];
  const all = (chart, axis, ...some) => axesOf(lines(some.map((plan) => run("A", [], {steps: [], ...plan})), chart, axis), chart, axis);
  for (const chart of COMPARED) {
    assert.deepEqual(all(chart, EPSILON, ...plans).x.range, [0, 3]);
    assert.deepEqual(all(chart, STEP, ...plans).x.range, [0, 200]);
    assert.deepEqual(all(chart, SECONDS, ...plans).x.ticks, []);
    assert.deepEqual(all(chart, EPSILON, plans[2]).x.ticks, []);
    for (const {y} of [all(chart, STEP, ...plans)]) assert.ok(y.range[0] < y.range[1] && y.range.every(Number.isFinite));
  }
  assert.deepEqual(all(LOSS, EPSILON, ...plans).y.ticks, []);
  assert.deepEqual(all(CLIPPED, STEP, ...plans).y.range, [0, 100]);
  assert.ok(drawn([run("A", [], {steps: []})]).length > 0);
});

test("the axis of a group reaches to the planned end from the first point on", () => {
  const one = run("A", [0.8], {planned: 300});
  assert.deepEqual(axesOf(lines([one], TWIN, STEP), TWIN, STEP).x.range, [0, 300]);
  assert.deepEqual(axesOf(lines([one], ACCURACY, STEP), ACCURACY, STEP).x.range, [0, 10]);
});

test("seeds that have all ended are seen close up", () => {
  const chart = {...SEEDS, ends: [75, 90]};
  const ticks = (...more) => axesOf(lines(more.map((one, i) => run(`${i}`, [0.8, 0.851 + 0.005 * i], {planned: 80, ...one})), chart, STEP), chart, STEP).y.ticks.map(([, text]) => text);
  assert.deepEqual(ticks({is_done: true}, {is_done: true}), ["84", "84.5", "85", "85.5", "86"]);
  assert.deepEqual(ticks({is_done: true}, {is_done: false}), ["75", "80", "85", "90"]);
});

test("budgets far apart are read on a log axis", () => {
  const [far, near] = [run("A", [0.8]), run("B", [0.8])];
  far.evaluations[0].epsilon = 8;
  const {x} = axesOf(lines([far, near]), ACCURACY, EPSILON);
  assert.equal(x.log, true);
  assert.deepEqual(x.ticks.map(([tick]) => tick), [0.5, 1, 2, 5]);
  assert.equal(axesOf(lines([near, run("A", [0.8])]), ACCURACY, EPSILON).x.log, false);
  assert.equal(axesOf(lines([far, near]), ACCURACY, STEP).x.log, false);
});

test("a cursor reads the last point before it and makes nothing up", () => {
  const points = [{x: 1, y: 10}, {x: 2, y: 20}];
  assert.equal(pointAt(points, 0.9), null);
  assert.equal(pointAt(points, 1.99).y, 10);
  assert.equal(pointAt(points, 2).y, 20);
  assert.equal(pointAt(points, 9).y, 20);
  assert.equal(classes(drawn([run("A", [0.8, 0.9])], {cursor: 0.7}), "path").includes("cursor"), true);
});

test("seeds of one configuration have a band at the steps that two of them have reached", () => {
  const [a, b, c] = lines([run("A", [0.8, 0.9, 0.91], {together: "AB"}), run("B", [0.82, 0.88], {together: "AB"}), run("C", [0.5])]);
  assert.deepEqual(groupsOf([a, b, c]), [[a, b]]);
  assert.deepEqual(band([a, b]).map(({low, mean, high}) => [low, mean, high].map(Math.round)), [[80, 81, 82], [88, 89, 90]]);
  assert.deepEqual(groupsOf([a, c]), []);
  const css = classes(drawn([a, b, c]), "path");
  assert.equal(css.filter((name) => name?.startsWith("f-band")).length, 1);
  assert.ok(css.includes("f-band lit"));
});

test("one run is lit, drawn last, and runs without privacy are dashed", () => {
  const all = drawn([run("A", [0.8, 0.9]), run("B", [0.7, 0.8], {dashed: true})], {axis: STEP});
  assert.deepEqual(curves(all), ["line s-faint thin dashed", "line s-private"]);
  assert.deepEqual(words(all.filter(({attributes}) => attributes.class === "private")), ["A 90.0"]);
});

test("of a class only the lit run is named, within the chart, and no line is more than two elements", () => {
  const runs = [run("1", [0.8, 0.9], {label: "Student 1"}), run("2", [0.7, 0.8], {label: "x".repeat(23)}), run("3", [])];
  const all = (lit) => drawn(runs, {chart: CLASS, lit});
  assert.deepEqual(curves(all(null)), ["line s-faint thin", "line s-faint thin"]);
  assert.ok(words(all("1")).includes("Student 1 90.0 %"));
  assert.ok(!words(all("3")).some((text) => text.startsWith("Student")));
  const {attributes: {x}, content} = all("2").find(({content: text}) => text?.startsWith?.("xxx"));
  assert.ok(x >= 40 && x + labelWidth(content) <= 484, `${x}`);
  const many = Array.from({length: 40}, (_, i) => run(String(i), Array.from({length: 200}, (_unused, j) => 0.5 + j / 500)));
  assert.ok(drawn(many, {chart: CLASS, lit: "7"}).length < 140);
});

test("each run of a twin has its colour and its name, beside the lines or, in a narrow chart, among them", () => {
  const runs = ["private", "good", "twin"].map((colour, i) => run(colour, [0.8 + i / 100], {colour, label: `${colour}, not private`, dashed: i === 2, planned: 20}));
  const chart = {...TWIN, ends: [75, 90]};
  for (const width of [350, 900]) {
    const all = drawn(runs, {chart, axis: STEP, width});
    assert.deepEqual(curves(all), ["line s-private", "line s-good", "line s-twin dashed"]);
    const names = all.filter(({content}) => /not private/.test(content));
    assert.deepEqual(names.map(({attributes}) => attributes.class.split(" ")[0]).sort(), ["good", "private", "twin"]);
    if (width === 900) assert.match(names.toSorted((a, b) => a.attributes.y - b.attributes.y)[0].content, /^twin/, "the highest end is named first");
    for (const {attributes: {x}, content} of names) assert.ok(width === 350 ? x <= width : x + 6 * content.length <= width, `${content} at ${x}`);
    const ys = names.map(({attributes}) => attributes.y).sort((a, b) => a - b);
    assert.ok(ys.every((y, i) => i === 0 || y - ys[i - 1] >= 14.9), String(ys));
  }
});

test("names among the lines of a narrow chart touch no line, no end and no other name", () => {
  let named = 0;
  for (const [first, spread] of [[0.8, 0.02], [0.9, 0.001], [0.6, 0.1]]) {
    const curve = (i) => Array.from({length: 12}, (_, k) => (first + i * spread) * (1 - 0.5 * Math.exp(-k / 2)));
    const runs = ["private", "good", "twin"].map((colour, i) => run(colour, curve(i), {colour, label: `${colour}, not private`, planned: 120}));
    const all = drawn(runs, {chart: {...TWIN, ends: [40, 99]}, axis: STEP, width: 350});
    const lined = all.filter(({attributes}) => /^line /.test(attributes.class ?? "")).map(({attributes: {d}}) => [...d.matchAll(/(-?[\d.]+) (-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]));
    const boxes = all.filter(({content, attributes}) => /not private/.test(content) && !/halo/.test(attributes.class)).map(({attributes: {x, y}, content}) => ({x, y: y - 13, w: Math.ceil(labelWidth(content)), h: 17}));
    const ends = all.filter(({name}) => name === "circle").map(({attributes: {cx, cy, r}}) => ({x: cx - r, y: cy - r, w: 2 * r, h: 2 * r}));
    named += boxes.length;
    boxes.forEach((box, i) => {
      assert.ok(box.x >= 40 && box.x + box.w <= 334, JSON.stringify(box));
      for (const points of lined) points.forEach((point, k) => k > 0 && assert.ok(!touches(points[k - 1], point, box), "on a line"));
      for (const other of [...ends, ...boxes.slice(0, i)]) assert.ok(!overlap(box, other), "on a mark");
    });
  }
  assert.ok(named >= 7, String(named));
});

test("a small chart has no names, and ticks only at its ends", () => {
  const all = drawn([run("A", [0.8], {planned: 300}), run("B", [0.7], {planned: 300})], {chart: {...SWEEP, ends: [0, 99.5]}, axis: STEP, width: 180});
  assert.deepEqual(words(all).filter((text) => /[A-Z]|step/.test(text)), []);
  assert.deepEqual(words(all).slice(-2), ["0", "300"]);
});

test("drawings are finite while runs wait, train and have ended", () => {
  for (const chart of [...COMPARED, CLASS, {...SWEEP, ends: [75, 90]}, {...SEEDS, ends: [0, 99.5]}, {...TWIN, ends: [75, 90]}]) {
    for (const some of [[[], []], [[0.8], []], [[0.8, 0.1], [0.99, 1]]]) {
      for (const width of [150, 600]) {
        const runs = some.map((accuracies, i) => run(`${i}`, accuracies, {steps: [], planned: 300, is_done: accuracies.length > 1}));
        for (const {attributes} of drawn(runs, {chart, axis: STEP, width})) {
          for (const value of Object.values(attributes)) assert.doesNotMatch(String(value), /NaN|Infinity|undefined/);
        }
      }
    }
  }
});

test("letters at the right are apart and inside, also where eight runs end in one point", () => {
  const all = drawn([..."ABCDEFGH"].map((letter) => run(letter, [0.8, 0.9])));
  const ends = all.filter(({name, content}) => name === "text" && /^[A-H] /.test(content)).map(({attributes}) => attributes.y).sort((a, b) => a - b);
  assert.equal(ends.length, 8);
  for (let i = 1; i < 8; i += 1) assert.ok(ends[i] - ends[i - 1] >= 14.9);
  assert.ok(ends.at(-1) <= ACCURACY.height);
});

test("the nearest run at the cursor is found by its height there", () => {
  const all = lines([run("A", [0.8, 0.9]), run("B", [0.7, 0.95])]);
  assert.equal(nearest(all, 0.6, 71, (y) => y), "B");
  assert.equal(nearest(all, 1, 91, (y) => y), "A");
  assert.equal(nearest([], 1, 91, (y) => y), null);
});

test("headings have the numbers of the best and of the last run", () => {
  const runs = [run("A", [0.8]), run("B", [0.825])];
  const said = (some, chart = ACCURACY) => conclusion(lines(some, chart), chart);
  for (const part of ["B", "82.5", "2.5", "A"]) assert.ok(said(runs).includes(part), said(runs));
  for (const part of ["B", "0.175", "A", "0.200"]) assert.ok(said(runs, LOSS).includes(part), said(runs, LOSS));
  assert.ok(said(runs, CLIPPED).includes("50 %"));
  for (const part of ["2", "80.0", "82.5"]) assert.ok(said(runs, CLASS).includes(part), said(runs, CLASS));
  assert.equal(said([], CLASS), CLASS.words.none);
  assert.equal(said([run("A", [], {steps: []})], CLIPPED), CLIPPED.words.waiting);
  assert.equal(said([run("A", [], {steps: [{step: 1, diagnostics: {clipped_fraction: null}}]})], CLIPPED), CLIPPED.words.empty);
  const apart = [run("A", [0.8], {dataset: "mnist"}), run("B", [0.825])];
  for (const chart of COMPARED) assert.match(said(apart, chart), /^2 data sets: /);
  for (const chart of COMPARED) assert.doesNotMatch(said(runs, chart) + said(apart, chart) + said([runs[0], runs[0]], chart), /[{}]|undefined/);
});

test("the table has a row for each point of each run", () => {
  assert.deepEqual(rows([run("A", [0.8]), run("B", [0.7])], ACCURACY), [["A", 10, 0.5, 1, 80], ["B", 10, 0.5, 1, 70]]);
});
