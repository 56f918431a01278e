import assert from "node:assert/strict";
import {test} from "node:test";
import {nearest} from "../../../dpsgd_explorer/web/hub/widgets/microscope/drawings.js";
import {lengthsAt} from "../../../dpsgd_explorer/web/hub/widgets/microscope/lengths.js";
import {beyond, networkWords} from "../../../dpsgd_explorer/web/hub/widgets/microscope/network.js";
import {angle, clip, compute, scaled, total} from "../../../static/js/widgets/common/dpsgd_step.js";
import {which, words} from "../../../dpsgd_explorer/web/hub/widgets/microscope/words.js";

const DATA = {
  records: [[0, 3], [1, 0], [0, -0.5]], odd: 0, at: [0, 0], drawn: [0, 2], bound: 1, noiseMultiplier: 2, noise: [1, -1],
  expected: 2, learning_rate: 1, sample_rate: 0.5, ghosts: [[0, 0], [1, 1]],
};

test("a vector is shortened to the bound, keeps its direction, and short ones stay", () => {
  assert.deepEqual(clip([3, 4], 5), [3, 4]);
  assert.deepEqual(clip([3, 4], 1).map((value) => Number(value.toFixed(12))), [0.6, 0.8]);
  assert.deepEqual(clip([0, -1.5], 1), [0, -1]);
  assert.deepEqual(clip([0, 0], 1), [0, 0]);
});

test("the step clips each gradient, sums, and adds noise once", () => {
  const step = compute(DATA);
  assert.deepEqual(step.pulls, [[0, 3], [-0, -0.5]]);
  assert.deepEqual(step.sums.clipped, [0, 0.5]);
  assert.deepEqual(step.sums.true, [0, 2.5]);
  assert.equal(step.spread, 2);
  assert.deepEqual(step.sums.noisy, [2, -1.5]);
  assert.equal(step.cut, 1);
  const wide = compute({...DATA, bound: 4});
  assert.deepEqual(wide.sums.noisy, [8, -5.5]); // noise grows with C
});

test("an empty batch is a step of noise alone, and is said to be empty", () => {
  const state = {...DATA, drawn: []};
  const step = compute(state);
  assert.deepEqual([step.sums.true, step.sums.clipped], [[0, 0], [0, 0]]);
  assert.deepEqual(step.sums.noisy, [2, -2]);
  for (const name of ["sample", "compute", "clip", "sum", "noise", "divide", "move"]) {
    const said = words(name, step, state).join(" ");
    assert.doesNotMatch(said, /NaN|undefined|Infinity/);
  }
  assert.match(words("compute", step, state)[0], /batch is empty/);
  assert.match(words("sample", step, state)[0], /^0 of 3 records/);
});

test("the mean is over the expected size, and the words say which number is not the divisor", () => {
  const state = {...DATA, drawn: [0]};
  const step = compute(state);
  const [heading, sentence] = words("divide", step, state);
  assert.match(heading, /^Divided by 2, the released mean is 1\.12 long/); // |(2, -1)| / 2
  assert.match(sentence, /not the 1 that were drawn/);
  assert.match(words("move", step, state)[1], /slope goes from 0\.00 to 1\.00, the intercept from 0\.00 to −0\.50/);
});

test("angles are in degrees, and nothing has none", () => {
  assert.equal(Math.round(angle([1, 0], [0, 2])), 90);
  assert.equal(Math.round(angle([1, 0], [-3, 0])), 180);
  assert.equal(angle([0, 0], [1, 0]), 0);
  assert.deepEqual(total([[1, 2], scaled([1, 1], 3)]), [4, 5]);
});

test("an arrow tells whose it is, what is left of it, and who was not drawn", () => {
  const step = compute(DATA);
  assert.match(which(0, step, DATA), /Record 1, the odd one\. Its gradient is 3\.00 long; clipped to 1\.00 it keeps 33 %\./);
  assert.match(which(1, step, DATA), /Record 2, x = 1\.00, y = 0\.00\. Not drawn/);
  assert.match(which(2, step, DATA), /not clipped/);
});

test("the arrow that is pressed is the nearest one, if any is near", () => {
  const places = [[[0, 0], [100, 0]], [[0, 0], [0, 100]]];
  assert.equal(nearest([80, 10], places), 0);
  assert.equal(nearest([8, 60], places), 1);
  assert.equal(nearest([90, 90], places), null);
  assert.equal(nearest([1, 1], []), null);
});

const NETWORK = {
  parameters: 400, lengths: [3, 1, 0.2, 0.1], true: 4, bounds: [0.1, 0.4, 1.6], clipped: [0.3, 0.6, 2.4], degrees: [60, 40, 10],
  noise_multiplier: 0.5, bound: 0.4,
};

test("a network's step has its recorded lengths, and noise that grows with C and the root of d", () => {
  const found = lengthsAt(NETWORK, 0.4);
  assert.equal(found.cut, 2);
  assert.ok(Math.abs(found.sums.clipped - 0.6) < 1e-12 && Math.abs(found.turns.clipped - 40) < 1e-12);
  assert.ok(Math.abs(found.sums.noise - 4) < 1e-12); // 0.5 · 0.4 · 20
  assert.ok(Math.abs(found.sums.noisy - Math.hypot(4, 0.6)) < 1e-12);
  assert.ok(found.turns.noisy > found.turns.clipped && found.turns.noisy < 90);
  const between = lengthsAt(NETWORK, 0.8);
  assert.ok(Math.abs(between.sums.clipped - 1.2) < 1e-12); // half-way on the logarithmic scale
  for (const [bound, clipped] of [[0.01, 0.3], [0.1, 0.3], [1.6, 2.4], [9, 2.4]]) assert.equal(lengthsAt(NETWORK, bound).sums.clipped, clipped);
});

test("a bar that would go beyond the others says how far", () => {
  assert.equal(beyond({true: 270, noisy: 10}), "27 times this");
  assert.equal(beyond({true: 5, noisy: 10}), "");
});

test("the words of a network's step say how much longer the noise is, and what it does along the sum", () => {
  const [heading, sentence] = networkWords({...lengthsAt(NETWORK, 0.4), bound: 0.4}, NETWORK);
  assert.match(heading, /^2 of 4 gradients are cut; the noise is 6\.7 times as long/);
  assert.match(sentence, /σC√d = 4 long; in the plane of two parameters it would be 0\.28/);
  assert.match(sentence, /standard deviation σC and no more\.$/);
  assert.match(networkWords({...lengthsAt(NETWORK, 0.8), bound: 0.8}, NETWORK)[1], /ε is the same with every C\.$/);
});
