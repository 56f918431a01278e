import assert from "node:assert/strict";
import {test} from "node:test";
import {placeAfter} from "../../../static/js/lib/player.js";
import {printed} from "../../../dpsgd_explorer/web/hub/widgets/accountant_race/widget.js";

test("an ε is printed rounded up, a large one whole", () => {
  assert.equal(printed(2.3817), "2.39");
  assert.equal(printed(5445.01), "5,446");
  assert.equal(printed(0.00314), "0.0032");
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
