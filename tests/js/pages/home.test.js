import assert from "node:assert/strict";
import {test} from "node:test";
import {counted, spoken} from "../../../dpsgd_explorer/web/hub/widgets/noise/widget.js";
import {humps} from "../../../static/js/widgets/common/humps.js";

const level = {noise: "8", limit: "53.0", accuracy: "97.6", epsilon: "0.54", words: "Merged."};

test("a number counts to its new value and ends as the server's text", () => {
  assert.deepEqual([0, 0.5, 1].map((share) => counted("97.0", "53.1", share)), ["97.0", "75.0", "53.1"]);
  assert.equal(counted("99.9", "100", 0.5), "100");
});

test("screen readers hear the limit of this run, the accuracy and epsilon", () => {
  assert.match(spoken(level), /^Merged.*at most 53.0 times in 100 in this run.*97.6 of 100.*0.54/);
});

test("each curve has its own label while the peaks are apart, and record 24 stands on its curve", () => {
  const chart = {width: 500, frame: (ends, _, [left, top, right, bottom]) => Object.assign(chart, {x: (v) => left + (v - ends[0]) * (right - left) / (ends[1] - ends[0]), y: (v) => bottom - v * (bottom - top)})};
  const data = {places: [-1, 0, 1, 2, 3], without: [0, 1, 0, 0, 0]};
  const words = (marks) => marks.filter(({name}) => name === "text").map(({content}) => content);
  const apart = humps(chart, data, {with: [0, 0, 0, 1, 0], is_merged: false});
  assert.deepEqual(words(apart), ["without 24", "with 24"]);
  assert.deepEqual(words(humps(chart, data, {with: [0, 1, 0, 0, 0], is_merged: true})), ["without 24 dashed, with 24 full"]);
  const [nine] = apart.filter(({name}) => name === "use");
  assert.ok(Math.abs(nine.attributes.x + nine.attributes.width / 2 - chart.x(2)) <= 1);
});
