import assert from "node:assert/strict";
import {test} from "node:test";
import {figure as accuracy} from "../../../static/js/charts/accuracy.js";
import {height} from "../../../static/js/charts/ticks.js";
import {PLAN, color} from "../support.js";

const view = {plan: PLAN, axis: "epsilon", range: [75, 90], first_epsilon: null, seconds: 3};

test("the words at the wall and those at the newest point never lie over each other", () => {
  for (const width of [340, 900]) {
    const size = {width, height: 300};
    for (let share = 0; share <= 1; share += 0.02) {
      const evaluations = [{step: 1, epsilon: 0.98, seconds: 1, test_accuracy: (75 + 15 * share) / 100, test_loss: 0.5}];
      const {layout} = accuracy({...view, size, evaluations}, color);
      const [wall, point] = ["budget", "private"].map((word) => layout.annotations.find(({text}) => text.includes(word)));
      const [floor, ceiling] = view.range.map((end) => height(end, view.range));
      const shift = point.yshift / (size.height - 40);
      const at = (point.y - floor) / (ceiling - floor) + shift;
      assert.ok(Math.abs(at - wall.y) > 20 / (size.height - 40), `${width} ${share}: ${at} and ${wall.y}`);
      assert.ok(wall.y < 1, "above the drawing");
    }
  }
});

test("the words at the newest point stand beside its line, also where that is steep", () => {
  const at = (step, epsilon) => ({step, epsilon, seconds: step, test_accuracy: 0.8 + step / 100, test_loss: 0.5});
  const anchor = (...points) => accuracy({...view, size: {width: 900, height: 300}, evaluations: points}, color).layout.annotations.find(({text}) => text.includes("private")).xanchor;
  assert.equal(anchor(at(1, 0.1), at(2, 0.6)), "right");
  assert.equal(anchor(at(1, 0.5), at(2, 0.6)), "left"); // as of a budget: the first step counts most
  assert.equal(anchor(at(1, 0.9), at(2, 0.98)), "right"); // no room before the wall
});
