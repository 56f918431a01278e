import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {test} from "node:test";
import {bestRow, clippedSum, correlation, decode, noiseOf, PIXELS, quotients, release} from "../../../static/js/widgets/common/picture_gradient.js";

const path = new URL("../../../dpsgd_explorer/web/labs/reconstruct/recorded.json", import.meta.url);
const recorded = JSON.parse(readFileSync(path, "utf8"));
const recording = decode(recorded);
const MULTIPLIERS = [0, 0.01, 0.1, 3];
const START = {model: "linear", batch: 1, bound: 1, noise: 0, seed: 1};

for (const name of ["linear", "hidden"]) {
  test(`the lengths of gradients are torch's: ${name}`, () => {
    recording.pictures.forEach((picture, i) => {
      const {norm} = recording.models[name].gradient(picture, recording.labels[i]);
      assert.ok(Math.abs(norm / recorded.norms[name][i] - 1) < 1e-5, `${i}: ${norm}`);
    });
  });

  test(`without noise every unit that a record reaches gives it away: ${name}`, () => {
    recording.pictures.forEach((picture, i) => {
      const alone = {...recording, pictures: [picture], labels: [recording.labels[i]]};
      const sum = clippedSum(alone, {...START, model: name});
      const rows = quotients(sum, noiseOf(sum.length, 1), 0);
      assert.ok(rows.length > 0);
      for (const row of rows) row.forEach((value, p) => assert.ok(Math.abs(value - picture[p]) < 1e-9));
    });
  });

  test(`noise drowns it, the more the larger it is: ${name}`, () => {
    const {means} = release(recording, {...START, model: name}, MULTIPLIERS);
    assert.ok(means[0] > 1 - 1e-9);
    assert.ok(means[1] < means[0] && means[2] < means[1]);
    assert.ok(means[3] < 0.25);
  });
}

test("no record's share of the sum is longer than the bound", () => {
  const sum = clippedSum(recording, {...START, bound: 0.3});
  const {norm} = recording.models.linear.gradient(recording.pictures[0], recording.labels[0]);
  const length = Math.sqrt(sum.reduce((total, one) => total + one * one, 0));
  assert.ok(Math.abs(length - 0.3) < 1e-12);
  const free = clippedSum(recording, {...START, bound: 100});
  assert.ok(Math.abs(free[5] * 0.3 - sum[5] * norm) < 1e-12);
});

test("a bound beyond the gradient's length only adds noise; below it changes nothing", () => {
  const at = (bound) => release(recording, {...START, bound}, [0.03]).means[0];
  assert.ok(Math.abs(at(0.1) - at(1)) < 1e-9);
  assert.ok(at(30) < at(10));
});

test("of a batch a unit of the hidden layer shows single records", () => {
  const {found} = release(recording, {...START, model: "hidden", batch: 8}, []);
  assert.equal(found.length, 8);
  assert.ok(Math.max(...found.map((one) => one.correlation)) > 0.8);
});

test("the shown release and the row of the table at its noise are one", () => {
  const {found, means} = release(recording, {...START, batch: 4, noise: 0.1}, MULTIPLIERS);
  assert.equal(found.reduce((sum, one) => sum + one.correlation, 0) / 4, means[2]);
});

test("a unit that no record reaches gives nothing, and nothing is like anything then", () => {
  assert.deepEqual(quotients(new Float64Array(2 * (PIXELS + 1)), new Float64Array(2 * (PIXELS + 1)), 0), []);
  assert.equal(correlation(new Float64Array(3), Float64Array.of(1, 2, 3)), 0);
  assert.equal(correlation(Float64Array.of(2, 4, 6), Float64Array.of(1, 2, 3)), 1);
});

test("the same seed draws the same noise, another seed another", () => {
  assert.deepEqual(noiseOf(4, 3), noiseOf(4, 3));
  assert.notDeepEqual(noiseOf(4, 3), noiseOf(4, 4));
  assert.equal(bestRow([Float64Array.of(1, 0), Float64Array.of(0, 1)], Float64Array.of(0, 2)).correlation, 1);
});
