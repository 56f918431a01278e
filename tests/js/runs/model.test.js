import assert from "node:assert/strict";
import {test} from "node:test";
import {areWorded, cellLooks, confusionConclusion, errorRows, errorsConclusion, hardest, largestConfusion} from "../../../static/js/runs/model/errors.js";
import {answerConclusion, blank, prepared, stroke} from "../../../static/js/runs/model/drawing.js";
import {sides, sidesConclusion} from "../../../static/js/runs/model/sides.js";
import {featureWeights, featuresConclusion} from "../../../static/js/runs/model/features.js";
import {textRows} from "../../../static/js/runs/model/texts.js";
import {accuracyOf, changeOf, firstFilters, isFair, largest, linearLayer, options, partsOf, scores, seenModel} from "../../../static/js/runs/model/seen.js";
import {filtersConclusion, fullColour, pixels, rimStrength, weightRows, weightsConclusion} from "../../../static/js/runs/model/weights.js";
import {RunLog} from "../../../static/js/runs/log/run_log.js";

const packed = (levels) => Buffer.from(Int8Array.from(levels).buffer).toString("base64");
const weights = (matrix, classes, scale = 0.5) => ({
  weight: {shape: [classes, matrix.length / classes], scale, values: packed(matrix)},
  bias: {shape: [classes], scale, values: packed(Array(classes).fill(2))},
});

test("a linear layer answers with its weights times what it is shown, and its bias", () => {
  const layer = linearLayer(weights([2, 0, -4, 6], 2));
  assert.deepEqual(scores(layer, [1, 10]), [2, 29]);
  assert.deepEqual([...changeOf(layer, linearLayer(weights([0, 0, -4, 2], 2)))], [1, 0, 0, 2]);
  assert.equal(largest([2, 29]), 1);
});

test("a model of more layers, and one without weights, is no linear layer", () => {
  assert.equal(linearLayer(null), null);
  assert.equal(linearLayer({...weights([1, 1], 1), more: {shape: [1, 1], scale: 1, values: packed([1])}}), null);
});

test("noise in the rim is told from pictures in the middle", () => {
  const side = 8;
  const middle = Float32Array.from({length: 2 * side * side}, (_, i) => {
    const [row, column] = [Math.floor(i / side) % side, i % side];
    return Math.min(row, column, side - 1 - row, side - 1 - column) < 2 ? 0 : -3;
  });
  assert.equal(rimStrength(middle, side), 0);
  assert.equal(rimStrength(middle.map((value) => value || 1.5), side), 0.5);
  assert.equal(rimStrength(middle.map(() => 0), side), null);
  assert.match(weightsConclusion(0.5, true), /^The pictures show through the noise: .* 50 % as far/);
  assert.match(weightsConclusion(0.9, true), /^Noise drowns the pictures/);
  assert.match(weightsConclusion(0, false), /stays empty$/);
  assert.equal(weightsConclusion(null, true), "No weight has moved yet");
});

test("a pixel's colour is the side it speaks for, its opacity how much, up to the full colour", () => {
  const change = Float32Array.from([0.5, -1, 4, 0]);
  assert.deepEqual([...pixels(change, 1, [1, 2, 3], [7, 8, 9])], [1, 2, 3, 128, 7, 8, 9, 255, 1, 2, 3, 255, 7, 8, 9, 0]);
  assert.equal(fullColour(Float32Array.from({length: 1000}, (_, i) => (i === 7 ? 900 : i % 2 ? 1 : -1))), 1);
  assert.equal(fullColour(Float32Array.from([0, 0])), 1);
});

test("the table of weights says where the extremes are", () => {
  const change = Float32Array.from([0, 5, -2, 0, 1, 1, 1, -9]);
  assert.deepEqual(weightRows(change, 2, ["a", "b"]), [["a", "5.000", "1, 2", "−2.000", "2, 1"], ["b", "1.000", "1, 1", "−9.000", "2, 2"]]);
});

test("columns of a table are ordered by how far they have moved, with their sides", () => {
  const change = Float32Array.from([1, -1, 0, 2, 1, -4]);
  const rows = featureWeights(change, ["old", "young", "rich"], 2);
  assert.deepEqual(rows.map(({name, change: by}) => [name, by]), [["rich", -4], ["young", 2], ["old", 1]]);
  assert.equal(featuresConclusion(rows, ["no", "yes"]), "“young” counts most for “yes”, “rich” most against it");
  const three = featureWeights(Float32Array.from([0, 3, 0, 0, 0, 3]), ["x", "y"], 3);
  assert.deepEqual(three.map(({name, class: speaks, change: by}) => [name, speaks, by]), [["y", 1, -2], ["x", 0, 0]]);
});

const COUNTS = [[8, 2, 0], [1, 7, 5], [0, 0, 9]];

test("the largest confusion is named and framed", () => {
  assert.deepEqual(largestConfusion(COUNTS), {is: 1, read: 2, count: 5, total: 13});
  assert.equal(confusionConclusion(COUNTS, ["0", "1", "2"]), "5 of the 13 test records that are 1 are read as 2");
  assert.match(confusionConclusion(COUNTS, ["0", "at most", "2"]), /are “at most” are read as 2$/);
  assert.deepEqual(cellLooks(COUNTS), [["hit", "miss", "zero"], ["few", "hit", "worst"], ["zero", "zero", "hit"]]);
  assert.equal(confusionConclusion([[3, 0], [0, 2]], ["0", "1"]), "No test record is misread");
  assert.deepEqual(cellLooks([[3, 0], [0, 2]]), [["hit", "zero"], ["zero", "hit"]]);
});

test("errors are shares of each class and group, beside the whole and the twin", () => {
  const model = {confusion: [[8, 2], [1, 9]], groups: {sex: {Female: [5, 1]}}};
  const alone = errorRows(model, null, ["0", "1"]);
  assert.deepEqual(alone.map(({part, share}) => [part, share]), [["all", 0.15], ["class", 0.2], ["class", 0.1], ["sex", 0.2]]);
  assert.equal(errorsConclusion(alone), "The 0 is misread most: 20.0 %, against 15.0 % over all classes");
  const beside = errorRows(model, {confusion: [[8, 2], [0, 10]], groups: {sex: {Female: [5, 0]}}}, ["0", "1"]);
  assert.equal(hardest(beside).label, "1");
  assert.equal(errorsConclusion(beside), "The 1 pays most for privacy: 10.0 points");
  assert.equal(errorsConclusion(errorRows(model, {confusion: [[7, 3], [1, 9]], groups: {sex: {Female: [5, 1]}}}, ["0", "1"])), "No class is misread more often than by the twin");
  assert.equal(errorsConclusion(beside, false), "The 1 is furthest behind the twin: 10.0 points");
});

test("an empty class or group is no number", () => {
  const [, empty] = errorRows({confusion: [[0, 0], [1, 9]], groups: null}, null, ["0", "1"]);
  assert.equal(empty.share, 0);
});

test("pictures are lost by the private model or won, and come from many classes", () => {
  const own = new Map([[1, 7], [2, 3], [5, 0], [9, 4]]);
  const twin = new Map([[2, 8], [6, 1]]);
  const pool = [9, 5, 1, 2, 6, 1].map((index) => ({index, label: index % 4, ink: []}));
  const found = sides(own, twin, pool);
  assert.deepEqual([found.lost, found.won], [3, 1]);
  assert.deepEqual(found.lostPictures.map(({picture, read}) => [picture.index, read]), [[1, 7], [5, 0], [9, 4]]);
  assert.deepEqual(found.wonPictures.map(({picture, read}) => [picture.index, read]), [[6, 1]]);
  assert.equal(sidesConclusion(found, 10000), "Privacy lost 3 of 10,000 test pictures and won 1");
  assert.equal(sidesConclusion(found, 10000, false), "Only the twin is right on 3 of 10,000 test pictures, only this model on 1");
  const fair = {sharesBatches: true, isTuned: true, model: {step: 9}};
  assert.ok(isFair(fair, 9));
  assert.ok(!isFair(fair, 8) && !isFair({...fair, sharesBatches: false}, 9) && !isFair({...fair, isTuned: false}, 9));
  assert.deepEqual(options({choices: [], source: "recorded"}), []);
  const choices = [{id: "a", name: "Mine", learning_rate: 0.5}];
  assert.deepEqual(options({choices, source: "recorded"}), [["", "the recorded twin, at its tuned rate"], ["a", "your run “Mine”, learning rate 0.5"]]);
  assert.match(sidesConclusion({lost: 0, won: 0}, 9), /^Both models are right on the same/);
});

test("a log shows its model as it was at any step, and nothing before the first evaluation", () => {
  const log = new RunLog();
  const add = (seq, data) => log.add({seq, kind: "model", data});
  add(1, {step: 0, epsilon: 0, weights: weights([0, 0], 1), confusion: null});
  const plan = {private: true, digits: 2};
  assert.equal(seenModel(log, plan), null);
  add(2, {step: 3, epsilon: 0.501, weights: weights([4, -2], 1), confusion: [[3, 1], [0, 4]]});
  add(3, {step: 9, epsilon: 0.9, weights: null, confusion: [[4, 0], [0, 4]]});
  const early = seenModel(log.until(3), plan);
  assert.deepEqual([early.model.step, early.reached, [...early.change]], [3, "ε 0.51, 87.5 %", [2, -1]]);
  const late = seenModel(log, plan);
  assert.deepEqual([late.model.step, late.weightsStep, late.reached], [9, 3, "ε 0.90, 100.0 %"]);
  assert.equal(accuracyOf(late.model), 1);
  assert.equal(seenModel(log, {private: false}).reached, "100.0 %");
  assert.equal(partsOf([{step: 4, weights: null, confusion: [[1]]}]).change, null);
});

const SIDE = 28;
const inkOf = (ink) => ink.reduce((sum, amount) => sum + amount, 0);

test("a drawing is scaled and centred as the test pictures were, wherever and however large it was drawn", () => {
  const answers = [[[4, 3], [4, 9]], [[20, 5], [20, 26]]].map(([from, to]) => {
    const ink = blank(SIDE);
    stroke(ink, SIDE, from, to);
    return prepared(ink, SIDE);
  });
  for (const ready of answers) {
    const rows = [...Array(SIDE).keys()].filter((row) => ready.subarray(row * SIDE, (row + 1) * SIDE).some((amount) => amount > 0.3));
    assert.ok(Math.abs(rows.length - 20) <= 2, `${rows.length} rows`);
    const middle = ready.reduce((sum, amount, i) => sum + amount * ((i % SIDE) + 0.5), 0) / inkOf(ready);
    assert.ok(Math.abs(middle - SIDE / 2) < 0.1);
    assert.ok(ready.every((amount) => amount >= 0 && amount <= 1));
  }
  assert.equal(prepared(blank(SIDE), SIDE), null);
});

test("strokes beyond the edge, and of no length, are ink where there is a picture", () => {
  const ink = blank(SIDE);
  stroke(ink, SIDE, [-5, -5], [-4, -5]);
  assert.equal(inkOf(ink), 0);
  stroke(ink, SIDE, [0, 0], [0, 0]);
  assert.ok(inkOf(ink) > 0 && ink[0] === 1);
  stroke(ink, SIDE, [100, 14], [27, 14]);
  assert.equal(ink.length, SIDE * SIDE);
});

test("what is read is said, and whether the twin agrees", () => {
  assert.equal(answerConclusion("3", "3", true), "Both models read 3");
  assert.equal(answerConclusion("3", "5", true), "The private model reads 3, its twin 5");
  assert.equal(answerConclusion("3", null, false), "The model reads 3");
  assert.match(answerConclusion(null, null, true), /^Draw/);
});

test("filters of a first convolution are pictures too", () => {
  const filters = (levels) => ({"0.weight": {shape: [2, 1, 2, 2], scale: 1, values: packed(levels)}, "0.bias": {shape: [2], scale: 1, values: packed([0, 0])}});
  assert.equal(firstFilters(weights([1, 1], 1)), null);
  assert.equal(firstFilters(null), null);
  assert.equal(firstFilters(filters([1, 2, 3, 4, 5, 6, 7, 8])).count, 2);
  const models = [{step: 0, weights: filters([3, 4, 0, 0, 0, 0, 0, 0])}, {step: 2, weights: filters([3, 4, 6, 8, 0, 0, 0, 0]), confusion: [[1]]}];
  const {filters: seen, change} = partsOf(models);
  assert.deepEqual([seen.side, ...seen.change], [2, 0, 0, 6, 8, 0, 0, 0, 0]);
  assert.equal(change, null);
  assert.equal(filtersConclusion(seen.change, seen.start), "The filters of the first layer have moved 2.0 times as far as they were from zero");
  assert.equal(filtersConclusion(new Float32Array(4), seen.start), "No weight has moved yet");
});

test("class names that do not fit above a number get room", () => {
  assert.equal(areWorded(["0", "9"]), false);
  assert.equal(areWorded(["bag", "coat"]), true);
});

test("a language model is seen by its texts, before, now and of its twin", () => {
  const models = [{step: 0, texts: ["def"], confusion: null}, {step: 40, epsilon: 2.9, texts: ["A man."], confusion: null, accuracy: 0.5}];
  const plan = {private: true, digits: 2};
  assert.equal(seenModel({models: models.slice(0, 1)}, plan), null);
  const seen = seenModel({models}, plan);
  assert.match(seen.reached, /50.0 %$/);
  const rows = textRows(seen, {model: {texts: ["A woman."]}}, true);
  assert.deepEqual(rows.map(({texts}) => texts[0]), ["def", "A man.", "A woman."]);
  assert.match(rows[1].title, /\bprivate$/);
  assert.match(textRows(seen, null, false)[1].title, /not private$/);
});
