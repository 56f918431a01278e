import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, nearest, outcome, sentences} from "../../../dpsgd_explorer/web/hub/widgets/clip_histogram/widget.js";

const DATA = {bounds: [0.1, 1, 10], edges: [0.01, 0.1, 1, 10, 100], noise: [0.2, 2, 20]};
const STEP = {step: 5, batch_size: 8, counts: [1, 2, 4, 1], lengths: [0.1, 0.5, 1], angles: [94.2, 30.4, 0.2]};

test("a bound cuts what lies in the bins beyond it", () => {
  const found = DATA.bounds.map((_, place) => outcome(DATA, STEP, place));
  assert.deepEqual(found.map(({cut}) => cut), [7, 5, 1]);
  assert.deepEqual(found.map(({ratio}) => ratio), [2, 4, 20]);
  assert.equal(found[1].share, 0.625);
});

test("the measured bound nearest to the hand is taken, by ratio and not by distance", () => {
  assert.deepEqual([0.001, 0.3, 0.4, 5, 1e9].map((value) => nearest(DATA.bounds, value)), [0, 0, 1, 2, 2]);
});

test("heading and sentences say what is cut and where the mean leads", () => {
  const words = [0, 1, 2].map((place) => conclusion(outcome(DATA, STEP, place), 5));
  assert.match(words[0], /^At C = 0\.1, 88 % of the gradients of step 5 are clipped, and their mean turns by 94°$/);
  assert.match(words[2], /12 % .* their mean keeps its direction$/);
  const [cut, drowned] = sentences(outcome(DATA, STEP, 0), "100");
  assert.equal(cut, "7 of 8 are cut; 1 stays as it is. Beyond 90° the clipped mean leads uphill for this batch.");
  assert.equal(drowned, "The noise, in 100 directions together, is 2 times as long as the clipped mean.");
  const all = {...STEP, counts: [0, 0, 0, 8]};
  assert.match(sentences(outcome(DATA, all, 0), "100")[0], /^All are cut/);
  const none = {...STEP, counts: [8, 0, 0, 0]};
  assert.equal(sentences(outcome(DATA, none, 2), "100")[0], "None is cut: no bias.");
});
