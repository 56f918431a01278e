import assert from "node:assert/strict";
import {test} from "node:test";
import {batchesConclusion, conclusion, heightOf, marks, table, under, within} from "../../../dpsgd_explorer/web/labs/planner/budget_map.js";
import {chartOf, wordsOf} from "../support.js";

const line = (epsilon, noise) => ({epsilon, epochs: [1, 10, 100], noise_multiplier: noise});
const VIEW = {
  epochs: [1, 100],
  noise_multiplier: [0.5, 8],
  budget: line(3, [0.7, 1, 2]),
  contours: [line(0.3, [2, 4, 9]), line(3, [0.7, 1, 2]), line(10, [0.5, 0.6, 1])],
  ticks: {epochs: [1, 10, 100], noise_multiplier: [1, 2]},
  point: {epochs: 10, noise_multiplier: 1, epsilon_text: "3.00"},
};
const WIDTH = 800;
const chart = chartOf(WIDTH, heightOf(WIDTH));
const handles = (all) => all.filter(({attributes}) => attributes.class === "handle");

test("the line to walk along stands out, and is not drawn twice", () => {
  const styles = marks(chart, VIEW).map(({attributes}) => attributes.class).filter((css) => css?.startsWith("line "));
  assert.deepEqual(styles, ["line s-private thin", "line s-private thin", "line s-budget"]);
});

test("the point is where the budget stands", () => {
  const [{attributes}] = handles(marks(chart, VIEW));
  assert.ok(Math.abs(attributes.cx - chart.x(10)) < 0.1);
  assert.ok(Math.abs(attributes.cy - chart.y(0)) < 0.1);
  assert.deepEqual(handles(marks(chart, {...VIEW, point: null})), []);
});

test("a line ends at the edge of the map, and is named there", () => {
  const [top, right] = [0, 2].map((i) => within(VIEW.contours[i], VIEW.noise_multiplier).at(-1));
  assert.equal(top[1], 8);
  assert.ok(top[0] > 10 && top[0] < 100);
  assert.deepEqual(right, [100, 1]);
  assert.deepEqual(wordsOf(marks(chart, VIEW)).filter((word) => word.startsWith("ε")), ["ε = 0.3", "ε = 10", "ε = 3"]);
});

test("the line under the pointer is named, and none where there is none", () => {
  marks(chart, VIEW);
  const named = (place) => wordsOf(marks(chart, VIEW, place)).filter((word) => word === "ε = 0.3").length;
  assert.equal(named([chart.x(10), chart.y(Math.log10(4)) + 3]), 2);
  assert.equal(named([chart.x(10), chart.y(Math.log10(4)) + 60]), 1);
});

test("a pixel is a place on the map, and beyond it the nearest edge", () => {
  marks(chart, VIEW);
  assert.deepEqual(under(chart, VIEW, [chart.x(10), chart.y(Math.log10(2))]), {epochs: 10, noise_multiplier: 2});
  assert.deepEqual(under(chart, VIEW, [-50, 9999]), {epochs: 1, noise_multiplier: 0.5});
});

test("the map says what stands at the point, and when it is more than the budget", () => {
  assert.equal(conclusion(VIEW), "10 epochs at σ = 1.000 spend ε = 3.00");
  const over = {...VIEW, point: {...VIEW.point, epsilon_text: "4.20"}};
  assert.match(conclusion(over), /more than 3$/);
});

test("the table holds each line once, by epsilon", () => {
  const {heads, values} = table(VIEW);
  assert.deepEqual(heads, ["Epochs", "ε = 0.3", "ε = 3", "ε = 10"]);
  assert.deepEqual(values[1], [10, 4, 1, 0.6]);
});

test("a larger batch is compared per update and over the run, and what is held is said", () => {
  const rows = [[64, 18750, 0.0095], [4096, 293, 0.00045]].map(([expected_batch_size, steps, noise_per_update]) => ({expected_batch_size, steps, noise_per_update}));
  assert.equal(
    batchesConclusion(rows),
    "At this ε and these epochs, a batch of 4,096 carries 21 times less noise per update than one of 64, and 2.6 times less over the run",
  );
});
