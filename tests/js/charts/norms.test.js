import assert from "node:assert/strict";
import {test} from "node:test";
import {figure as norms, previewEdges} from "../../../static/js/charts/norms.js";
import {color} from "../support.js";

test("labels of the axis of norms never turn, and have room on every width", () => {
  const edges = previewEdges(0.1);
  for (const width of [200, 248, 300, 358, 419]) {
    const {xaxis} = norms({edges, counts: edges.slice(1).map(() => 0), clipped_fraction: null, max_grad_norm: 0.1, clipping_fn: "Abadi", top: 10, size: {width, height: 186}}, color).layout;
    assert.equal(xaxis.tickangle, 0);
    const [low, high] = xaxis.range;
    const places = xaxis.tickvals.map((value) => ((width - 60) * (value - low)) / (high - low));
    assert.ok(places.length >= 2, `${width}`);
    for (let i = 1; i < places.length; i += 1) assert.ok(places[i] - places[i - 1] >= 40, `${width}: ${places}`);
  }
});
