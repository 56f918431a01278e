import assert from "node:assert/strict";
import {test} from "node:test";
import {Generator} from "../../../static/js/widgets/common/random.js";
import {EPOCH, dealt, story, usedIn} from "../../../dpsgd_explorer/web/hub/widgets/sampling_lottery/draws.js";

const generator = new Generator(5); // seeded: no false alarm
const epochs = (name, count) => Array.from({length: count}, () => EPOCH[name](generator, 24, 6));
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

test("a deal holds each number at most once, and each equally often", () => {
  const counts = new Array(5).fill(0);
  for (let i = 0; i < 20000; i++) {
    const cards = dealt(generator, 5, 2);
    assert.equal(new Set(cards).size, 2);
    for (const card of cards) counts[card] += 1;
  }
  for (const count of counts) assert.ok(Math.abs(count - 8000) < 400, `${counts}`);
});

test("all schemes use a record in a quarter of the steps and expect the same size", () => {
  for (const name of Object.keys(EPOCH)) {
    const steps = epochs(name, 5000).flat();
    assert.equal(steps.length, 20000);
    assert.ok(Math.abs(mean(steps.map(({isYours}) => Number(isYours))) - 0.25) < 0.02, name);
    assert.ok(Math.abs(mean(steps.map(({size}) => size)) - 6) < 0.1, name);
  }
});

test("sizes vary under Poisson sampling and random allocation; only this and shuffling use a record exactly once per epoch", () => {
  const sizes = (name) => new Set(epochs(name, 300).flat().map(({size}) => size));
  const uses = (name) => new Set(epochs(name, 300).map((steps) => usedIn(steps).length));
  assert.ok(sizes("poisson").size > 6 && sizes("allocation").size > 6);
  assert.deepEqual([...sizes("fixed"), ...sizes("shuffled")], [6, 6]);
  assert.deepEqual([...uses("shuffled"), ...uses("allocation")], [1, 1]);
  for (const steps of epochs("allocation", 100)) assert.equal(steps.reduce((sum, {size}) => sum + size, 0), 24);
  assert.ok(uses("poisson").has(0) && uses("poisson").has(2) && uses("fixed").has(0) && uses("fixed").has(2));
});

test("words say which steps used the record, and the sizes", () => {
  const step = (size, isYours) => ({size, isYours});
  assert.equal(story([step(6, true), step(6, false), step(6, true)]), "Your record: in steps 1, 3. Sizes: all 6.");
  assert.equal(story([step(2, false), step(9, true)]), "Your record: in step 2. Sizes: 2 to 9.");
  assert.match(story([step(2, false)]), /in no step/);
});
