import assert from "node:assert/strict";
import {test} from "node:test";
import {FILTER, conclusion, enter, history, isWithin, promise, refusal, spent} from "../../../dpsgd_explorer/web/hub/widgets/composition_diary/diary.js";

const DATA = {
  budget: 3,
  kinds: [{kind: "run"}, {kind: "sum"}, {kind: "count"}],
  spent: {
    "000": ["0.00", "0.00", "0"], "100": ["1.00", "1.00", "16"], "110": ["2.10", "1.47", "101"],
    "111": ["3.01", "1.92", "120"], "211": ["3.72", "3.00", "150"], "212": ["4.0", "3.01", "160"],
  },
};
const FULL = ["run", "sum", "count", "run"];

test("what is spent depends on how many of each kind, not on their order", () => {
  assert.deepEqual(spent(["sum", "count", "run"], DATA), DATA.spent["111"]);
  assert.deepEqual(history(["run", "sum"], DATA).map((row) => row[1]), ["0.00", "1.00", "1.47"]);
});

test("a release is entered up to the budget and refused beyond it, by each way", () => {
  const tries = [[["run", "sum"], "count", 0, false], [["run", "sum"], "count", 1, true], [FULL.slice(0, 3), "run", 1, true], [FULL, "count", 1, false], [["run"], "sum", FILTER, false], [[], "run", FILTER, true]];
  for (const [entries, kind, way, isEntered] of tries) {
    const after = enter(entries, kind, way, DATA);
    assert.deepEqual(after.entries, isEntered ? [...entries, kind] : entries);
    assert.equal(after.refused === null, isEntered);
  }
  assert.ok(isWithin(["3.00", "3.00", "100"], 0, DATA) && isWithin(["9", "9", "100"], FILTER, DATA));
});

test("words give the total, what is promised and why a release is refused", () => {
  assert.match(conclusion([], DATA, DATA.spent["000"]), /all of ε = 3 is left/);
  assert.equal(conclusion(["run"], DATA, DATA.spent["100"]), "1 release: ε = 1.00 together, 1.00 added up, of a budget of 3");
  assert.match(promise(["run"], 1, DATA, DATA.spent["100"]), /^The promise is ε = 1\.00, all releases/);
  assert.match(promise(["run"], FILTER, DATA, DATA.spent["100"]), /ε = 3, the whole budget.*16 %/);
  assert.match(refusal("a noisy count", 1, DATA.spent["212"], DATA), /with a noisy count ε would be 3\.01, more than 3\. Nothing is released/);
  assert.match(refusal("a noisy sum", FILTER, DATA.spent["110"], DATA), /101 % of its budget/);
});
