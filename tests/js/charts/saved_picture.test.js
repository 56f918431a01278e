import assert from "node:assert/strict";
import {test} from "node:test";
import {figure as accuracy} from "../../../static/js/charts/accuracy.js";
import {withWords} from "../../../static/js/charts/chart.js";
import {PLAN, color, logUpTo} from "../support.js";

const HEADING = "98.3 % at ε = 172.92; the second half of that ε bought nothing (ε counted by: Basic composition)";
const NOTES = ["ε at δ = 1e-5, add or remove one record, Poisson sampling; accountant: Basic composition, bound", "https://example.org/runs/0123456789abcdef/"];

test("a saved picture has its whole heading, the accountant and the address of the run, at every width", () => {
  for (const width of [330, 570, 900]) {
    const view = {evaluations: logUpTo().evaluations, plan: PLAN, axis: "epsilon", range: [75, 90], first_epsilon: null, seconds: 3, size: {width, height: 300}, print: true};
    const {layout} = accuracy(view, color);
    const saved = withWords(layout, {conclusion: HEADING, notes: NOTES, color});
    const [title, foot] = saved.annotations.slice(-2);
    assert.equal(title.text.replaceAll("<br>", " "), HEADING);
    assert.equal(foot.text.replaceAll("<br>", " "), NOTES.join(" "));
    for (const {text, font} of [title, foot]) {
      const lines = text.split("<br>");
      for (const line of lines) assert.ok(line.length * 0.575 * font.size <= width, `${width} px: ${line}`);
    }
    assert.equal(saved.height - saved.margin.t - saved.margin.b, layout.height - layout.margin.t - layout.margin.b);
    assert.ok(saved.margin.t - layout.margin.t >= title.text.split("<br>").length * 20);
    assert.ok(saved.margin.b - layout.margin.b >= foot.text.split("<br>").length * 16);
  }
});
