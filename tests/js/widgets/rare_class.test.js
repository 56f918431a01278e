import assert from "node:assert/strict";
import {test} from "node:test";
import {placed, rows} from "../../../dpsgd_explorer/web/hub/widgets/rare_class/widget.js";

const reading = (mean) => ({mean, each: [mean], words: String(mean)});

test("only the rare digit is marked, and it stands once more as it is when frequent", () => {
  const found = rows({rare: 1}, {digits: [reading(99), reading(70), reading(98)], frequent: reading(97)});
  assert.deepEqual(found.map(({name, colour, mean}) => [name, colour, mean]), [
    ["0", "twin", 99], ["1, rare", "attack", 70], ["2", "twin", 98], ["1", "private", 97],
  ]);
});

test("a guess stands in the row that it is about, and one that was not made nowhere", () => {
  const guesses = [{value: 90, words: "90 %"}, {value: 95, words: "95 %"}];
  assert.deepEqual(placed(guesses, 8, 10).map(({row, value}) => [row, value]), [[8, 90], [10, 95]]);
  assert.deepEqual(placed([{value: null, words: null}, guesses[1]], 8, 10), [{row: 10, value: 95, words: "95 %"}]);
});
