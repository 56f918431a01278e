import assert from "node:assert/strict";
import {test} from "node:test";
import {figure as accuracy} from "../../../static/js/charts/accuracy.js";
import {PLAN, SIZE, color, logUpTo} from "../support.js";

const log = logUpTo();
const view = {evaluations: log.evaluations, plan: PLAN, axis: "epsilon", range: [75, 90], first_epsilon: log.steps[0].epsilon, seconds: 3, size: SIZE};

test("the labels of a run and of the baseline do not touch, wherever the run ends", () => {
  for (const [size, plan] of [[SIZE, PLAN], [{width: 350, height: 310}, PLAN], [{width: 350, height: 310}, {...PLAN, baseline: 0.512}]]) {
    const range = [5 * Math.floor(20 * plan.baseline), 90];
    for (let percent = range[0]; percent < range[1]; percent += 0.1) {
      const end = {...log.evaluations.at(-1), test_accuracy: percent / 100};
      const {layout} = accuracy({...view, size, plan, range, evaluations: [log.evaluations[0], end]}, color);
      const find = (pattern) => layout.annotations.find(({text}) => pattern.test(text));
      const [own, other] = [find(/^private, /), find(/majority class, /)];
      const [foot, top] = layout.yaxis.range;
      const pixel = ({y, yshift}) => ((y - foot) / (top - foot)) * (size.height - layout.margin.t - layout.margin.b) + yshift;
      const middle = pixel(other) + (other.yanchor === "top" ? -8 : 8);
      assert.ok(Math.abs(pixel(own) - middle) >= 17, `${percent} %: ${pixel(own)} and ${middle} px`);
    }
  }
});
