import assert from "node:assert/strict";
import {test} from "node:test";
import {drawn, rounds} from "../../../dpsgd_explorer/web/short_course/attack.js";
import {brought} from "../../../dpsgd_explorer/web/short_course/course.js";
import {clippedFit, shifts} from "../../../dpsgd_explorer/web/short_course/odd.js";
import {between, progress} from "../../../dpsgd_explorer/web/short_course/scene.js";
import {Generator} from "../../../static/js/widgets/common/random.js";
import {fit, gradient, length} from "../../../static/js/widgets/common/toy_problem.js";

const others = Array.from({length: 20}, (_, i) => [i / 10 - 1, 0.9 * (i / 10 - 1) + 0.8 + 0.2 * Math.sin(7 * i)]);
const records = [...others, [0.95, -2]];
const odd = {records, odd: 20, bound: 1};

test("at the clipped line, the clipped gradients add up to zero", () => {
  for (const bound of [0.3, 1]) {
    const theta = clippedFit(records, bound);
    const clipped = records.map((record) => gradient(theta, record)).map((pull) => pull.map((value) => value * Math.min(1, bound / length(pull))));
    for (const i of [0, 1]) assert.ok(Math.abs(clipped.reduce((total, pull) => total + pull[i], 0)) < 1e-6, String(bound));
  }
});

test("without a gradient above the bound, clipping leaves the line as it is", () => {
  const free = fit(records);
  clippedFit(records, 100).forEach((value, i) => assert.ok(Math.abs(value - free[i]) < 1e-12));
});

test("however far the record moves, its clipped shift stays within a limit", () => {
  const [near, far] = [-2, -20].map((y) => shifts(odd, [0.95, y]));
  assert.ok(Math.abs(far.free) > 5 * Math.abs(near.free));
  assert.ok(Math.abs(far.clipped) < 1.5 * Math.abs(near.clipped));
  assert.ok(Math.abs(near.clipped) < Math.abs(near.free));
});

test("values that are drawn from a density have its mean and spread", () => {
  const places = Array.from({length: 121}, (_, i) => -6 + i / 10);
  const density = places.map((z) => Math.exp(-((z - 1) ** 2) / 2));
  const generator = new Generator(1);
  const values = Array.from({length: 20_000}, () => drawn(places, density, generator.uniform()));
  const mean = values.reduce((a, b) => a + b) / values.length;
  const spread = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length);
  assert.ok(Math.abs(mean - 1) < 0.03 && Math.abs(spread - 1) < 0.03, `${mean} ${spread}`);
  for (const uniform of [1e-12, 1 - 1e-12]) assert.ok(Number.isFinite(drawn(places, density, uniform)));
});

test("each game has as many models with the record as without it, in an order that a visitor cannot know", () => {
  const data = {places: [-1, 0, 1], without: [1, 1, 1], levels: [{with: [0, 0, 1]}, {with: [1, 1, 1]}], attack: {games: [{level: 0, guesses: 4}, {level: 1, guesses: 6}]}};
  const orders = new Set();
  for (let seed = 0; seed < 20; seed++) {
    const all = rounds(data, new Generator(seed));
    assert.deepEqual([0, 1].map((game) => all.filter((one) => one.game === game && one.wasIn).length), [2, 3]);
    for (const {game, wasIn, at} of all) if (game === 0 && wasIn) assert.ok(at > 0.4, "a model with the record falls where its density is");
    orders.add(all.map(({wasIn}) => Number(wasIn)).join(""));
  }
  assert.ok(orders.size > 10);
});

test("the last scene says what was tried, and that nothing was", () => {
  const moved = {free: -0.54, clipped: -0.12};
  const rows = (score) => Object.fromEntries(brought({noise: "4"}, moved, score));
  const none = rows([{noise: "0.5", right: 0, made: 0}]);
  assert.equal(none["Your noise"], "σ = 4");
  assert.equal(none["Record 24 moved the model by"], "0.54, clipped by 0.12");
  assert.equal(none["Your right guesses"], "none tried");
  assert.equal(rows([{noise: "0.5", right: 3, made: 4}, {noise: "4", right: 0, made: 0}])["Your right guesses"], "3 of 4 at σ = 0.5");
});

test("progress stays between 0 and 1", () => {
  assert.deepEqual([-1, 0, 0.45, 2].map((value) => progress(value, 0, 0.9)), [0, 0, 0.5, 1]);
  assert.equal(between(2, 6, 0.25), 3);
});
