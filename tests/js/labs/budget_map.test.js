import assert from "node:assert/strict";
import {test} from "node:test";
import {MARGIN, conclusion, figure, table, under} from "../../../dpsgd_explorer/web/labs/planner/budget_map.js";
import {SIZE, color} from "../support.js";

const line = (epsilon, noise) => ({epsilon, epochs: [1, 10, 100], noise_multiplier: noise});
const VIEW = {
  epochs: [1, 100],
  noise_multiplier: [0.5, 8],
  budget: line(3, [0.7, 1, 2]),
  contours: [line(0.3, [2, 4, 9]), line(3, [0.7, 1, 2]), line(10, [0.5, 0.6, 1])],
  point: {epochs: 10, noise_multiplier: 1, epsilon_text: "3.00"},
  size: SIZE,
};

test("the line to walk along stands out, and is not drawn twice", () => {
  const {traces} = figure(VIEW, color);
  const lines = traces.filter(({mode}) => mode === "lines");
  assert.deepEqual(lines.map(({line: {color: token}}) => token), ["--series-private", "--series-private", "--series-budget"]);
});

test("the point is where the budget stands", () => {
  const [disc] = figure(VIEW, color).traces.filter(({mode}) => mode === "markers");
  assert.deepEqual([disc.x, disc.y, disc.marker.color], [[10], [1], "--ink"]);
  assert.equal(figure({...VIEW, point: null}, color).traces.length, 3);
});

test("lines are named where they leave the map", () => {
  const {annotations} = figure(VIEW, color).layout;
  const named = Object.fromEntries(annotations.map((one) => [one.text, one]));
  assert.equal(named["ε = 3"].xref, "paper");
  assert.equal(named["ε = 0.3"].yref, "paper");
});

test("a pixel is a place on the map, and beyond it the nearest edge", () => {
  assert.deepEqual(under(VIEW, MARGIN.l, MARGIN.t), {epochs: 1, noise_multiplier: 8});
  const middle = under(VIEW, (MARGIN.l + SIZE.width - MARGIN.r) / 2, (MARGIN.t + SIZE.height - MARGIN.b) / 2);
  assert.deepEqual(middle, {epochs: 10, noise_multiplier: 2});
  assert.deepEqual(under(VIEW, -50, 9999), {epochs: 1, noise_multiplier: 0.5});
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
