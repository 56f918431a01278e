import assert from "node:assert/strict";
import {test} from "node:test";
import {against, conclusion, decades, epsilonText, heightOf, marks, nearestStep, ranking, runners, table} from "../../../static/js/charts/race.js";
import {chartOf, wordsOf} from "../support.js";

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
const LOOKS = {
  names: {exact: "exact", rdp: "Rényi", basic: "basic", gdp: "limit", zcdp: "zCDP"},
  dashes: {gdp: "dashed", basic: "dash-dotted"},
  colours: {exact: "good", bound: "private", approximation: "budget", "does not apply": "twin"},
  silent: "twin",
};
const RUNNERS = runners(RACE.curves, LOOKS);
const VIEW = {steps: RACE.steps, runners: RUNNERS, reached: 2, cursor: 2, hasValues: true};
const drawn = (view = {}, width = 800) => marks(chartOf(width, heightOf(width)), {...VIEW, ...view});
const lines = (all) => all.filter(({attributes}) => attributes.class?.startsWith("line "));
const ends = (all, key) => all.filter(({name, attributes}) => name === "text" && attributes.class.endsWith("halo")).map(({attributes, content}) => (key ? attributes[key] : content));

test("each claim has its colour, and those of one claim differ by their dash", () => {
  const styles = lines(drawn()).map(({attributes}) => attributes.class);
  assert.deepEqual(styles, ["line s-private thin", "line s-private thin dash-dotted", "line s-budget thin dashed", "line s-good"]);
});

test("an accountant that says nothing here is not drawn, and stands in the table", () => {
  assert.equal(lines(drawn()).length, 4);
  const row = ranking({...RACE, cursor: 2}).find(({accountant}) => accountant === "zcdp");
  assert.deepEqual([row.text, row.against], ["–", ""]);
});

test("while the race is on, only what has been run is drawn, on axes that do not move", () => {
  const [early, late] = [1, 2].map((reached) => drawn({reached}));
  const points = (all) => lines(all)[0].attributes.d.split("L").length;
  assert.deepEqual([points(early), points(late)], [2, 3]);
  const ticks = (all) => all.filter(({name, attributes}) => name === "text" && attributes.class === "").map(({attributes: {x, y}, content}) => [content, x, y]);
  assert.ok(ticks(early).length > 5);
  assert.deepEqual(ticks(early), ticks(late));
});

test("the axis ends at powers of ten around every value", () => {
  assert.deepEqual(decades(RACE.curves), [-2, 1]);
  assert.deepEqual(decades([]), [-2, 2]);
});

test("a narrow chart has short names and no values", () => {
  assert.deepEqual(ends(drawn({}, 800)), ["Exact", "RDP", "Basic", "GDP"]);
  assert.deepEqual(ends(drawn({}, 358)), ["exact", "Rényi", "basic", "limit"]);
  assert.ok(wordsOf(drawn({}, 800)).includes("0.55"));
  assert.ok(!wordsOf(drawn({}, 358)).includes("0.55"));
});

test("names at the ends do not lie on each other, nor below the axis", () => {
  const sorted = ends(drawn(), "y").sort((a, b) => a - b);
  for (let i = 1; i < 4; i += 1) assert.ok(sorted[i] - sorted[i - 1] >= 16.9, String(sorted));
  assert.ok(sorted[3] <= heightOf(800) - 44 + 4.5);
});

test("the pointer has every value at its step listed", () => {
  const words = wordsOf(drawn({isPointed: true, cursor: 1}));
  for (const word of ["step 10", "0.2", "0.4", "0.18"]) assert.ok(words.includes(word), word);
  assert.equal(nearestStep(RACE.steps, 4), 1);
  assert.equal(nearestStep(RACE.steps, 3), 0);
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

test("the heading says what is claimed at a step, and what is below the truth", () => {
  const at = (curves, place, options) => conclusion(RACE.steps, runners(curves, LOOKS), place, options);
  assert.equal(at(RACE.curves, 2), "After 100 steps: exactly ε = 0.5, by bounds up to 10, by an approximation 0.48, below the truth");
  assert.match(at(RACE.curves, 0), /^After 1 step: exactly ε = 0.1, /);
  const equal = [RACE.curves[0], racer("gdp", "approximation", [0.1, 0.2, 0.5])];
  assert.doesNotMatch(at(equal, 2), /below/);
  assert.equal(at([racer("basic", "bound", [1, 2, null])], 2), "After 100 steps: by bounds up to ∞");
  assert.equal(at([], 2), "After 100 steps: no accountant has an answer");
});

test("of shuffled batches nothing is claimed", () => {
  assert.match(conclusion(RACE.steps, RUNNERS, 2, {valid: false}), /none of these numbers holds/);
  assert.ok(runners(RACE.curves, LOOKS, false).every(({colour}) => colour === "twin"));
});

test("the table has a row a step and leaves out who says nothing", () => {
  const {heads, values, names} = table(RACE, "δ = 1e-5");
  assert.deepEqual(names, ["step", "exact", "rdp", "basic", "gdp"]);
  assert.deepEqual(values[2], [100, 0.5, 0.55, 10, 0.48]);
  assert.equal(heads.length, names.length);
});
