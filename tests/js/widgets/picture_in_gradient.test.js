import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {test} from "node:test";
import {releases, sentence} from "../../../dpsgd_explorer/web/hub/widgets/picture_in_gradient/widget.js";
import {PIXELS} from "../../../static/js/widgets/common/picture_gradient.js";

const path = new URL("../../../dpsgd_explorer/web/labs/reconstruct/recorded.json", import.meta.url);
const {pictures, labels} = JSON.parse(readFileSync(path, "utf8"));
const place = labels.indexOf(9);
const picture = Buffer.from(pictures, "base64").subarray(place * PIXELS, (place + 1) * PIXELS).toString("base64");

test("one division finds the picture, and noise drowns it", () => {
  const found = releases({picture, label: 9, bound: 1, noise: [0, 0.03, 3]}).map(({correlation}) => correlation);
  assert.ok(found[0] > 0.999999, found);
  assert.ok(found[1] < found[0] && found[1] > found[2], found);
  assert.ok(found[2] < 0.2, found);
});

test("without noise nothing is promised", () => {
  assert.match(sentence("∞", "1e-6", "100"), /Not private/);
  assert.match(sentence("2.5", "1e-6", "95.3"), /rightly 95\.3 % of the time \(this run: one step, ε = 2\.5, δ = 1e-6\)/);
});
