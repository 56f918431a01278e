import assert from "node:assert/strict";
import {test} from "node:test";
import {placeAfter} from "../../../static/js/lib/player.js";
import {conclusion, decades, printed} from "../../../dpsgd_explorer/web/hub/widgets/accountant_race/widget.js";

const COURSE = {
  steps: [1, 1000],
  racers: [
    {status: "approximation", epsilon: [0.01, 2.3244]},
    {status: "exact", epsilon: [0.05, 2.3817]},
    {status: "bound", epsilon: [0.05, 2.5967]},
    {status: "bound", epsilon: [0.27, 5445.97]},
  ],
};

test("an ε is printed rounded up, a large one whole", () => {
  assert.equal(printed(2.3817), "2.39");
  assert.equal(printed(5445.01), "5,446");
  assert.equal(printed(0.00314), "0.0032");
});

test("a place of the run is said with what is claimed, and that an approximation is below the truth", () => {
  assert.equal(conclusion(COURSE, 1), "After 1,000 steps: exactly ε = 2.39, by bounds up to 5,446, by an approximation 2.33, below the truth");
  assert.match(conclusion(COURSE, 0), /^After 1 step: exactly ε = 0\.05, /);
  const exact = {...COURSE, racers: [{status: "approximation", epsilon: [0.05, 2.3817]}, ...COURSE.racers.slice(1)]};
  assert.doesNotMatch(conclusion(exact, 1), /below/);
});

test("whole powers of ten hold all values, and room for words below", () => {
  assert.deepEqual(decades(COURSE.racers), [-3, 4]);
});

test("a play goes from where it starts to the end, by few states where motion is unwanted", () => {
  const way = {first: 0, last: 40};
  assert.equal(placeAfter(0, way), 0);
  assert.equal(placeAfter(2500, way), 20);
  assert.equal(placeAfter(9000, way), 40);
  assert.equal(placeAfter(2500, {first: 20, last: 40}), 30);
  const still = {...way, tick: 1000};
  const seen = new Set(Array.from({length: 100}, (_, i) => placeAfter(50 * i, still)));
  assert.deepEqual([...seen], [0, 8, 16, 24, 32]);
  assert.equal(placeAfter(5000, still), 40);
});
