import assert from "node:assert/strict";
import {test} from "node:test";
import {Ghosts, pointsOf} from "../../../static/js/runs/ghosts/ghosts.js";
import {SEVERAL} from "../support.js";

const COLUMNS = {step: [1, 5], epsilon: [0.2, 0.7], test_accuracy: [0.5, 0.75]};

test("columns become points, an empty curve none", () => {
  assert.deepEqual(pointsOf(COLUMNS), [{step: 1, epsilon: 0.2, test_accuracy: 0.5}, {step: 5, epsilon: 0.7, test_accuracy: 0.75}]);
  assert.deepEqual(pointsOf({}), []);
});

test("a preset has its recorded run beside it, and its twin where there is one", () => {
  const ghosts = new Ghosts({adult: {recorded: COLUMNS, twin: {}}, mnist: {recorded: COLUMNS, twin: COLUMNS}}, SEVERAL.behind, () => {});
  assert.deepEqual(ghosts.beside("adult").map(({id, points}) => [id, points.length]), [["recorded", 2]]);
  assert.deepEqual(ghosts.beside("mnist").map(({id}) => id), ["recorded", "twin"]);
  assert.deepEqual(ghosts.beside("signals"), []);
});
