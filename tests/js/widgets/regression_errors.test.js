import assert from "node:assert/strict";
import {test} from "node:test";
import {conclusion, ranked, sentence} from "../../../dpsgd_explorer/web/hub/widgets/regression_errors/widget.js";

const method = (name, medians, texts, highs) => ({name, medians, texts, highs});
const DATA = {
  epsilons: [0.1, 2], mean: 1.3319, baselines: {mean: "1.33", least: "0.60"},
  methods: [
    method("A", [0.8, 0.7], ["0.8", "0.7"], [0.9, 0.8]),
    method("B", [null, 0.6], ["38", "0.6"], [1.49, 1.49]),
    method("C", [1.1, 0.9], ["1.1", "0.9"], [1.2, 1]),
  ],
};

test("methods are ranked by their medians; a median beyond the axis comes last", () => {
  assert.deepEqual(ranked(DATA, 0).map(({name}) => name), ["A", "C", "B"]);
  assert.equal(conclusion(DATA, 1), "Median errors at ε = 2: B (0.6), A (0.7), C (0.9)");
});

test("a method no better than the mean is named, and one of which a tenth of the releases is worse", () => {
  assert.match(sentence(DATA, 0), /^Always answering the mean has 1\.33, and least squares without privacy 0\.60\./);
  assert.match(sentence(DATA, 0), /No better than the mean here: B\.$/);
  assert.match(sentence(DATA, 1), /All are better than the mean here\. Better in half of the releases, but worse in more than one of ten: B\.$/);
});
