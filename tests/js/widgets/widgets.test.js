import assert from "node:assert/strict";
import {test} from "node:test";
import {direction, stateOf} from "../../../static/js/widgets/common/drag.js";
import {decimals} from "../../../static/js/lib/format.js";
import {fragment, outcome, pixelOf, readScale} from "../../../static/js/widgets/common/predict.js";
import {Generator, mix} from "../../../static/js/widgets/common/random.js";
import {arrow, circles, fanned, line, scale} from "../../../static/js/lib/svg.js";
import {fit, gradient} from "../../../static/js/widgets/common/toy_problem.js";
import {begin, comesFrom, start} from "../../../static/js/widgets/common/widgets.js";

test("the mixing is MurmurHash3's finalizer", () => {
  assert.equal(mix(0), 0);
  assert.equal(mix(1), 0x514e28b7);
  assert.equal(mix(0xffffffff), 0x81f16f39);
});

test("one seed gives one sequence, another seed another", () => {
  const draw = (seed) => Array.from({length: 5}, function () { return this.bits(); }, new Generator(seed));
  assert.deepEqual(draw(7), draw(7));
  assert.notDeepEqual(draw(7), draw(8));
});

test("normal numbers have mean 0, variance 1, kurtosis 3 and no memory", () => {
  const count = 200000; // seeded: no false alarm
  const x = new Generator(1).normals(new Float64Array(count));
  const mean = (f) => x.reduce((sum, value, i) => sum + f(value, i), 0) / count;
  assert.ok(Math.abs(mean((v) => v)) < 0.01);
  assert.ok(Math.abs(mean((v) => v * v) - 1) < 0.02);
  assert.ok(Math.abs(mean((v) => v ** 4) - 3) < 0.1);
  assert.ok(Math.abs(mean((v, i) => v * x[(i + 1) % count])) < 0.01);
});

test("a scale knows its way back, linear and logarithmic", () => {
  for (const log of [false, true]) {
    const to = scale([0.5, 8], [40, 240], {log});
    assert.ok(Math.abs(to(0.5) - 40) < 1e-9);
    assert.ok(Math.abs(to(8) - 240) < 1e-9);
    assert.ok(Math.abs(to.back(to(2)) - 2) < 1e-9);
  }
  assert.equal(scale([0.5, 8], [0, 4], {log: true})(2), 2);
});

test("labels keep their order and their distance", () => {
  assert.deepEqual(fanned([50, 20, 52], 16), [50, 20, 66]);
  assert.deepEqual(fanned([-40, -41], 16, 10), [26, 10]);
  assert.deepEqual(fanned([]), []);
});

test("marks without points or length draw nothing", () => {
  assert.equal(line([], "x").attributes.d, "");
  assert.equal(circles([], 3, "x").attributes.d, "");
  assert.deepEqual(arrow([5, 5], [5.5, 5], "a", "b"), []);
  assert.deepEqual(arrow([5, 5], [NaN, 5], "a", "b"), []);
});

test("a control is free unless the address names it whole", () => {
  const lists = {hidden: "noise rate", locked: "bound"};
  assert.deepEqual(["noise", "bound", "height"].map((name) => stateOf(name, lists)), ["hidden", "locked", "free"]);
  assert.equal(stateOf("nois", lists), "free");
  assert.equal(stateOf("noise", {}), "free");
});

test("arrow keys have directions and no other key has one", () => {
  assert.deepEqual(direction("ArrowUp"), [0, 1]);
  assert.equal(direction("Tab"), null);
});

test("a negative number has a true minus sign, a rounded zero has none", () => {
  assert.equal(decimals(-2, 1), "−2.0");
  assert.equal(decimals(-0.001), "0.00");
});

test("the best line of points on a line is that line; of points over one x it is flat", () => {
  const [a, b] = fit([[-1, -1.5], [0, 0.5], [2, 4.5]]);
  assert.ok(Math.abs(a - 2) < 1e-12 && Math.abs(b - 0.5) < 1e-12);
  assert.deepEqual(fit([[1, 2], [1, 4]]), [0, 3]);
  assert.deepEqual(gradient([2, 1], [3, 4]), [9, 3]);
});

test("a guess is placed by the scales that a drawing says of itself", () => {
  const x = readScale("1 100 0 200 log");
  const y = readScale("0 1 100 0");
  assert.deepEqual(pixelOf({value: 0.25, at: {x: 10}}, x, y).map(Math.round), [100, 75]);
  assert.deepEqual(pixelOf({value: 10, at: {y: 0.5}}, x, y).map(Math.round), [100, 50]);
  assert.equal(pixelOf({value: 0, at: {y: 0.5}}, x, y), null); // a logarithm of 0
  assert.equal(pixelOf({value: null, at: {y: 0.5}}, x, y), null);
  assert.equal(readScale(undefined), null);
  assert.equal(readScale("a b c d"), null);
});

test("an address names a part of the page, or nothing", () => {
  assert.deepEqual(["#a-b", "", "#", "#%C3%A9", "#%E0%A4%A"].map(fragment), ["a-b", "", "", "é", ""]);
});

test("after a skipped guess only the answer is said", () => {
  assert.equal(outcome(null, "81 %"), "It is 81 %.");
  assert.equal(outcome("70 %", "81 %"), "You said 70 %; it is 81 %.");
});

/** The few elements that `start` touches. */
function figure(json) {
  const parts = {
    "[data-still]": {hidden: false}, "[data-live]": {hidden: true}, "[data-note]": {textContent: ""},
    '[data-part="title"]': {textContent: "first"}, "[data-widget-data]": {textContent: json},
  };
  return {parts, dataset: {widget: "x.js"}, addEventListener: () => undefined, querySelector: (name) => parts[name], querySelectorAll: () => []};
}

test("controls start where the address says, and their scripts hear of it", () => {
  const heard = [];
  const input = (type, value) => ({type, value, checked: false, closest: () => null, dispatchEvent: ({type: kind}) => heard.push([kind, value])});
  const [slider, near, far] = [input("range", "6"), input("radio", "0"), input("radio", "1")];
  const place = {dispatchEvent: ({type, detail}) => heard.push([type, detail])};
  const panel = {dataset: {tab: "Record"}, parentElement: place, checkVisibility: () => false};
  const grip = {...place, closest: () => panel};
  const controls = {noise: [slider], rate: [near, far], record: []};
  begin({
    querySelectorAll: (selector) => controls[selector.match(/"(\w+)"/)[1]],
    querySelector: () => grip,
  }, {noise: [3], rate: [1], record: [1, -2]});
  assert.equal(slider.value, "3");
  assert.deepEqual([near.checked, far.checked], [false, true]);
  assert.deepEqual(heard, [["input", "6"], ["change", "1"], ["tab", "Record"], ["start", [1, -2]]]);
});

test("guesses that were shown before the script came are handed to it", async () => {
  const heard = [];
  const element = figure("{}");
  element.dispatchEvent = ({type, detail}) => heard.push([type, detail]);
  await start(element, async () => ({mount() {}}));
  assert.deepEqual(heard, []);
  element.dataset.guesses = '[{"value":30}]';
  await start(element, async () => ({mount() {}}));
  assert.deepEqual(heard, [["guessed", [{value: 30}]]]);
});

test("an error belongs to the widget whose script is on its stack", () => {
  const stack = "Error: no\n    at limit (http://h/static/a/js/widgets/two_worlds/limit.js:3:9)\n    at draw (http://h/static/a/js/widgets/two-worlds.js:9:1)";
  assert.ok(comesFrom("/static/a/js/widgets/two-worlds.js", {stack}));
  assert.ok(!comesFrom("/static/a/js/widgets/two.js", {stack}));
  assert.ok(!comesFrom("/static/a/js/widgets/two-worlds.js", null));
});

test("a widget that fails gives its picture back and says so in one line", async (t) => {
  t.mock.method(console, "error", () => {});
  const broken = {mount: () => { throw new Error("no"); }};
  const cases = [["{", async () => ({mount() {}})], ["{}", async () => broken], ["{}", async () => ({})], ["{}", () => Promise.reject(new Error("404"))]];
  for (const [json, load] of cases) {
    const element = figure(json);
    await start(element, load);
    assert.equal(element.dataset.state, "failed");
    assert.deepEqual([element.parts["[data-still]"].hidden, element.parts["[data-live]"].hidden], [false, true]);
    assert.match(element.parts["[data-note]"].textContent, /^[^\n]+$/);
    assert.equal(element.parts['[data-part="title"]'].textContent, "first");
  }
  const element = figure('{"a": 1}');
  await start(element, async () => ({mount: (_, data) => assert.deepEqual(data, {a: 1})}));
  assert.equal(element.dataset.state, "moves");
  assert.deepEqual([element.parts["[data-still]"].hidden, element.parts["[data-live]"].hidden], [true, false]);
});
