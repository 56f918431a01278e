import assert from "node:assert/strict";
import {test} from "node:test";
import {against, conclusion, epsilonText, figure, powers, ranking, runners, table} from "../../../static/js/charts/race.js";
import {SIZE, color} from "../support.js";

const racer = (accountant, status, epsilon, label = accountant) => ({accountant, label, status, note: "", reason: "", epsilon});
const RACE = {
  steps: [1, 10, 100],
  curves: [
    racer("exact", "exact", [0.1, 0.2, 0.5], "Exact"),
    racer("rdp", "bound", [0.3, 0.4, 0.55], "RDP"),
    racer("basic", "bound", [0.1, 1, 10], "Basic"),
    racer("gdp", "approximation", [0.05, 0.18, 0.48], "GDP"),
    {...racer("zcdp", "does not apply", []), reason: "nothing is gained by sampling"},
  ],
};
const VIEW = {...RACE, reached: 3, cursor: 2, valid: true, size: SIZE};
const texts = ({layout}) => layout.annotations.map(({text}) => text);

test("each claim has its colour, and those of one claim differ by their dash", () => {
  const all = runners(VIEW);
  assert.deepEqual(all.map(({line}) => line), ["--series-good", "--series-private", "--series-private", "--series-budget"]);
  assert.notEqual(all[1].dash, all[2].dash);
  assert.notEqual(all[3].dash, "solid");
});

test("an accountant that says nothing here is not drawn, and stands in the table", () => {
  assert.equal(figure(VIEW, color).traces.length, 4);
  const row = ranking(VIEW).find(({accountant}) => accountant === "zcdp");
  assert.deepEqual([row.text, row.against], ["–", ""]);
});

test("while the race is on, only what has been run is drawn, on axes that do not move", () => {
  const [early, late] = [2, 3].map((reached) => figure({...VIEW, reached}, color));
  assert.deepEqual(early.traces[0].x, [1, 10]);
  assert.deepEqual(early.layout.yaxis.range, late.layout.yaxis.range);
  assert.deepEqual(early.layout.xaxis.range, [0, 2]);
});

test("the axis ends at powers of ten around every value", () => {
  assert.deepEqual(powers(RACE.curves), [-2, 1]);
  assert.deepEqual(powers([]), [-2, 2]);
});

test("names at the ends do not lie on each other", () => {
  const names = new Set(RACE.curves.map(({label}) => label));
  const places = figure(VIEW, color).layout.annotations.filter(({text}) => names.has(text)).map(({y}) => y);
  const sorted = [...places].sort((a, b) => a - b);
  assert.equal(places.length, 4);
  for (let i = 1; i < 4; i += 1) assert.ok(sorted[i] - sorted[i - 1] > 0.05, String(sorted));
  assert.ok(sorted.at(-1) <= 1 + 1e-9);
});

test("an epsilon is never printed below its value", () => {
  assert.equal(epsilonText(0.94686681), "0.9469");
  assert.equal(epsilonText(0.947), "0.947");
  assert.equal(epsilonText(223.4901), "223.5");
  assert.equal(epsilonText(0.00001234501), "1.235e-5");
  assert.equal(epsilonText(null), "∞");
});

test("numbers stand against the exact one", () => {
  assert.equal(against(223.49, 0.946867), "236 ×");
  assert.equal(against(1.0355, 0.946867), "+ 9.4 %");
  assert.equal(against(0.0368, 0.19945), "− 82 %");
  assert.equal(against(null, 1), "");
});

test("the heading says who is furthest off, and first of all who is below the truth", () => {
  assert.equal(conclusion(VIEW), "Basic gives 10; the truth is 0.5");
  const low = {...VIEW, curves: [RACE.curves[0], racer("gdp", "approximation", [0.05, 0.1, 0.2], "GDP")]};
  assert.equal(conclusion(low), "GDP gives 0.2, below the truth of 0.5");
});

test("of shuffled batches nothing is claimed", () => {
  const shuffled = {...VIEW, valid: false};
  assert.match(conclusion(shuffled), /none of these numbers holds/);
  assert.ok(runners(shuffled).every(({line}) => line === "--series-twin"));
});

test("the table has a row a step and leaves out who says nothing", () => {
  const {heads, values, names} = table(RACE, "δ = 1e-5");
  assert.deepEqual(names, ["step", "exact", "rdp", "basic", "gdp"]);
  assert.deepEqual(values[2], [100, 0.5, 0.55, 10, 0.48]);
  assert.equal(heads.length, names.length);
});

test("no text carries a tag: it would become a style attribute", () => {
  for (const text of texts(figure(VIEW, color))) assert.doesNotMatch(text, /</);
});
