import assert from "node:assert/strict";
import {readFileSync, readdirSync} from "node:fs";
import {test} from "node:test";
import {figure as accuracy} from "../../../static/js/charts/accuracy.js";
import {CLEAR, annotated, overlap, placeLabels, touches} from "../../../static/js/charts/labels.js";
import {errorRange} from "../../../static/js/charts/ticks.js";
import {PLAN, behind, color} from "../support.js";

const FOLDER = new URL("../../../dpsgd_explorer/web/recorded/", import.meta.url);
const PRESETS = readdirSync(FOLDER).filter((name) => name.endsWith(".json") && !name.includes("-twin")).map((name) => name.slice(0, -5));
/** Size of the plot box on a page of this width; a phone, a tablet, a laptop, a large screen. */
const SIZES = {390: [390, 250], 820: [460, 310], 1280: [570, 330], 1920: [760, 520]};
const LINE = 17;
const width = (text) => 7.4 * text.length; // a wide font

function recorded(name) {
  const {config, events} = JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), "utf8"));
  return {config, points: events.filter(({kind}) => kind === "evaluation").map(({data}) => data)};
}

/** Lines of a figure in px of its plot, from its traces and shapes; leader lines are not among them. */
function linesOf({traces, layout}) {
  const {l, r, t, b} = layout.margin;
  const [w, h] = [layout.width - l - r, layout.height - t - b];
  const [[x0, x1], [y0, y1]] = [layout.xaxis.range, layout.yaxis.range];
  const at = (x, y) => [(w * (x - x0)) / (x1 - x0), (h * (y1 - y)) / (y1 - y0)];
  const across = (value, ref) => (ref === "paper" ? x0 + value * (x1 - x0) : value);
  const up = (value, ref) => (ref === "paper" ? y0 + value * (y1 - y0) : value);
  const drawn = traces.map(({x, y}) => x.map((value, i) => at(value, y[i])));
  const ruled = layout.shapes.filter(({type, xref, yref}) => type === "line" && !(xref === "paper" && yref === "paper"))
    .map(({x0: a, x1: c, y0: d, y1: e, xref, yref}) => [at(across(a, xref), up(d, yref)), at(across(c, xref), up(e, yref))]);
  return {w, h, lines: [...drawn, ...ruled]};
}

/** Faults of the labels of a figure, by rectangles. */
function faults(drawing) {
  const {w, h, lines} = linesOf(drawing);
  const boxes = drawing.layout.annotations.filter(({borderpad}) => borderpad === 0).map(({text, xshift, yshift}) => ({text, x: xshift, y: -yshift, w: width(text) + 2, h: LINE}));
  const wide = ({x, y, w: across, h: down}) => ({x: x - CLEAR + 0.01, y: y - CLEAR + 0.01, w: across + 2 * CLEAR - 0.02, h: down + 2 * CLEAR - 0.02});
  return boxes.flatMap((box, i) => [
    ...(box.x < 0 || box.y < 0 || box.x + box.w > w || box.y + box.h > h ? [`${box.text}: outside`] : []),
    ...(lines.some((line) => line.some((point, k) => k > 0 && touches(line[k - 1], point, wide(box)))) ? [`${box.text}: on a line`] : []),
    ...boxes.slice(0, i).filter((other) => overlap(box, other, CLEAR - 0.01)).map((other) => `${box.text}: on ${other.text}`),
  ]);
}

/** A figure with the estimate of the widths that the test uses. */
function drawn(view) {
  const before = globalThis.document;
  globalThis.document = {createElement: () => ({getContext: () => ({measureText: (text) => ({width: width(text)})})}), body: {}};
  globalThis.getComputedStyle ??= () => ({fontFamily: "sans-serif"});
  try {
    return accuracy(view, color);
  } finally {
    globalThis.document = before;
  }
}

test("no label of a run touches a line, a label or an edge, for every preset, axis and size of screen", () => {
  let [states, unnamed] = [0, 0];
  for (const name of PRESETS) {
    const {config, points} = recorded(name);
    const budget = points.at(-1).epsilon;
    const plan = {...PLAN, budget, budget_text: budget.toFixed(2), steps: points.at(-1).step, last_step: points.at(-1).step, baseline: 0.114};
    const ghosts = [behind("recorded", {id: "r", label: "recorded", points}), behind("twin", {id: "t", label: "twin without privacy", points: points.map((point) => ({...point, test_accuracy: Math.min(0.99, point.test_accuracy + 0.01)}))})];
    const range = errorRange(name.startsWith("mnist") ? [0, 99.5] : [40, 95], points.map(({test_accuracy: share}) => 100 * share));
    for (const [across, high] of Object.values(SIZES)) {
      for (const axis of ["epsilon", "step", "seconds"]) {
        for (let count = 0; count <= points.length; count += 4) {
          const evaluations = points.slice(0, count);
          const view = {evaluations, plan, axis, range, ghosts, first_epsilon: points[0].epsilon, seconds: points.at(-1).seconds * 1.04, size: {width: across, height: high}};
          const drawing = drawn(view);
          assert.deepEqual(faults(drawing), [], `${name} ${config.dataset}, ${across} px, ${axis}, ${count} points`);
          states += 1;
          if (count > 0 && !drawing.layout.annotations.some(({text}) => text.startsWith("private, "))) unnamed += 1;
        }
      }
    }
  }
  assert.ok(states > 1000, String(states));
  assert.ok(unnamed <= 0.02 * states, `${unnamed} of ${states} without the label of the run`);
});

test("the label of a run that ends at any height keeps clear of the budget and the baseline", () => {
  for (const size of [{width: 340, height: 300}, {width: 900, height: 300}]) {
    for (let percent = 50; percent < 90; percent += 0.5) {
      const end = {step: 60, epsilon: 0.98, seconds: 1, test_accuracy: percent / 100, test_loss: 0.5};
      const drawing = drawn({evaluations: [{...end, step: 1, epsilon: 0.1, test_accuracy: 0.55}, end], plan: {...PLAN, baseline: 0.76}, axis: "epsilon", range: [50, 90], first_epsilon: null, seconds: 3, size});
      assert.deepEqual(faults(drawing), [], `${size.width} px, ${percent} %`);
    }
  }
});

test("the most important label has the best place, and one without a place is left out", () => {
  const label = {text: "a label", anchors: [[55, 30]]};
  const [first, second] = placeLabels([label, label], {width: 60, height: 40, lines: [], widthOf: () => 40});
  assert.ok(first && !overlap(first, {x: 0, y: 0, w: 1, h: 1}));
  assert.equal(second, null);
});

test("a label far from its point has a leader line, which crosses another line only if it may", () => {
  const size = {width: 200, height: 200, lines: [[[0, 120], [200, 120]]], boxes: [{x: 50, y: 60, w: 100, h: 55}], widthOf: () => 30};
  const label = {text: "far", anchors: [[100, 118]]};
  const ways = [[0, -1]];
  const [box] = placeLabels([{...label, ways, anchors: [[100, 58]]}], size);
  assert.equal(box.leader, null);
  assert.deepEqual(placeLabels([{...label, ways}], size), [null]); // its leader would cross the box
  const [under] = placeLabels([{...label, ways: [[0, 1]], anchors: [[100, 100]]}], {...size, boxes: []});
  assert.equal(under, null); // its leader would cross the line
  const crossing = [{...label, ways: [[0, 1]], anchors: [[100, 100]], mayCross: true, color: "ink"}];
  const {annotations, shapes} = annotated(crossing, {...size, boxes: []}, "lead");
  assert.deepEqual([annotations.length, shapes.length], [1, 1]);
});

test("a label keeps clear of the leader line of one before it", () => {
  const posts = [40, 160].map((x) => [[x, 90], [x, 150]]); // the wide label fits above them only
  const size = {width: 200, height: 160, lines: posts, widthOf: (text) => (text === "wide" ? 140 : 10)};
  const wide = {text: "wide", anchors: [[100, 150]], ways: [[0, -1]]};
  const small = {text: "small", anchors: [[90, 110]], ways: [[1, 0], [-1, 0]]};
  const [alone] = placeLabels([small], size);
  const [{leader}, beside] = placeLabels([wide, small], size);
  assert.ok(touches(...leader, alone));
  assert.ok(beside && !touches(...leader, beside));
});
