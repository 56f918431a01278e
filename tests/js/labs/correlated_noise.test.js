import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {test} from "node:test";
import {conclusion, treeWalk, walk} from "../../../dpsgd_explorer/web/labs/correlated_noise/walk.js";
import {Generator} from "../../../static/js/widgets/common/random.js";

const path = new URL("../../../dpsgd_explorer/web/labs/correlated_noise/recorded.json", import.meta.url);
const {runs, epsilons} = JSON.parse(readFileSync(path, "utf8"));

test("weights of earlier draws are added up", () => {
  assert.deepEqual([...walk({weights: [1]}, Float64Array.of(1, 2, 3), 2)], [2, 6, 12]);
  assert.deepEqual([...walk({weights: [1, -1]}, Float64Array.of(1, 2, 3), 1)], [1, 2, 3]);
  assert.deepEqual([...walk({weights: [1, -0.5]}, Float64Array.of(1, 2, 3), 1)], [1, 2.5, 4.5]);
});

test("draws have the standard deviation that the server sent", () => {
  const run = runs[1];
  for (const strategy of [...run.cyclic, run.fixed[2]]) {
    const at = epsilons.length - 1;
    const last = Array.from({length: 1500}, (_, seed) => walk(strategy, new Generator(seed + 1).normals(new Float64Array(run.steps)), strategy.noise[at]).at(-1));
    const spread = Math.sqrt(last.reduce((sum, value) => sum + value ** 2, 0) / last.length);
    const expected = strategy.noise[at] * strategy.errors.at(-1);
    assert.ok(Math.abs(spread / expected - 1) < 0.08, `${strategy.name} ${spread} ${expected}`);
  }
});

test("the sums of a binary tree have the errors that the server sent", () => {
  const {steps, shown, fixed} = runs[1];
  const trees = fixed.filter(({estimator}) => estimator);
  assert.deepEqual(trees.map(({estimator}) => estimator), ["plain", "online", "full"]);
  for (const tree of trees) {
    const squares = new Float64Array(steps);
    for (let node = 0; node < 2 * steps; node += 1) {
      const draws = new Float64Array(2 * steps);
      draws[node] = 1;
      treeWalk(tree, draws, 1).forEach((value, step) => { squares[step] += value ** 2; });
    }
    shown.forEach((step, i) => assert.ok(Math.abs(Math.sqrt(squares[step - 1]) / tree.errors[i] - 1) < 1e-3, `${tree.name}, step ${step}`));
  }
});

test("the heading says when nothing is gained", () => {
  assert.match(conclusion("0.53", 8, false), /^At ε = 8, sums have 0\.53 times/);
  assert.match(conclusion("1.04", 1, false), /^Nothing gained at ε = 1/);
  assert.match(conclusion("1.00", 1, true), /choose more bands/);
});
