/** The engines' charts: a refusal has a place and no bar; headings say what is shown. */

import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import test from "node:test";

import {agreement, conclusion, difference, figure, table, waysTaken} from "../../../static/js/charts/engines.js";
import {recordedContent} from "../../../static/js/runs/panel/engines_content.js";

const FILE = new URL("../../../dpsgd_explorer/web/labs/engines/recorded.json", import.meta.url);
const CONTENDERS = ["ordinary", "hooks", "extending", "vmap", "microbatch"];
const {log} = recordedContent({plan: {}, events: JSON.parse(readFileSync(FILE, "utf8")).events});
const FOUND = log.evaluations;
const NONE = {ratio: null, ratio_low: null, ratio_high: null, milliseconds: null, peak_bytes: null, difference: null};
const REFUSING = FOUND.map((one) => (one.engine === "vmap" ? {...one, ...NONE, refused: "cannot be mapped"} : one));
const draw = (name, found) => figure(name, {found, contenders: CONTENDERS, size: {width: 400, height: 230}}, (token) => token);

test("each engine has its bar, over the ordinary step's", () => {
  for (const name of ["time", "memory"]) {
    const [bars] = draw(name, FOUND).traces;
    assert.deepEqual(bars.y, CONTENDERS);
    assert.equal(bars.x[0], 1);
    assert.ok(bars.x.every((value) => Number.isFinite(value) && value > 0));
    const [, top] = draw(name, FOUND).layout.xaxis.range;
    assert.ok(bars.x.every((value) => value < top));
  }
});

test("an engine that refuses has no bar, and says so", () => {
  const {traces, layout} = draw("time", REFUSING);
  assert.ok(!traces[0].y.includes("vmap"));
  assert.equal(layout.annotations.find(({y}) => y === "vmap").text, "rejected");
  assert.deepEqual(table("memory", REFUSING).rows[3], ["vmap", null, null]);
});

test("an empty log draws the axes", () => {
  const {traces, layout} = draw("time", []);
  assert.deepEqual(traces[0].x, []);
  assert.deepEqual(layout.yaxis.categoryarray, CONTENDERS);
  assert.equal(conclusion("time", [], "Time"), "Time");
  assert.equal(agreement([]), "");
});

test("the headings name the ends and the largest difference", () => {
  const quick = FOUND.slice(1).reduce((a, b) => (a.ratio < b.ratio ? a : b));
  assert.ok(conclusion("time", FOUND, "Time").startsWith(`Time: fastest: ${quick.engine}, ${quick.ratio.toFixed(2)} ×`));
  const largest = Math.max(...FOUND.map((one) => one.difference ?? 0));
  assert.equal(agreement(FOUND), `4 engines, one gradient: no entry differs by more than ${difference(largest)} of the largest`);
  assert.match(agreement(REFUSING), /^3 engines/);
  assert.deepEqual([difference(0), difference(null), difference(2.5e-16)], ["0", "–", "2.5e-16"]);
});

test("ways are counted", () => {
  const {layers} = FOUND[1];
  const ghosts = layers.filter(({way}) => way === "ghost").length;
  assert.equal(waysTaken(layers), `${ghosts} of ${layers.length} layers computed norms without the gradient`);
  assert.equal(waysTaken([]), "");
});
