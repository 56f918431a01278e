import assert from "node:assert/strict";
import {test} from "node:test";
import {asTexts, defaultsAfter, given, missing, sameSettings, toJson, toQuery} from "../../../static/js/forms/query.js";

const FIELDS = [
  {name: "dataset", kind: "choice", switch: ""},
  {name: "private", kind: "boolean", switch: ""},
  {name: "target_epsilon", kind: "number", switch: "fix"},
  {name: "noise_multiplier", kind: "number", switch: "fix"},
  {name: "expected_batch_size", kind: "integer", switch: ""},
  {name: "stop_at_epsilon", kind: "number", switch: "", optional: true},
];
const TEXTS = {
  dataset: "mnist", private: "true", target_epsilon: "3", noise_multiplier: "1.5", expected_batch_size: "4096", stop_at_epsilon: "",
};

test("of two that exclude each other the chosen one counts, and no empty box that may be empty", () => {
  const counts = given(FIELDS, TEXTS, {fix: "noise_multiplier"});
  assert.deepEqual(Object.keys(counts), ["dataset", "private", "noise_multiplier", "expected_batch_size"]);
});

test("values go out as JSON; what is no number goes out as it was typed", () => {
  const typed = {...TEXTS, expected_batch_size: "4,096"};
  assert.deepEqual(toJson(FIELDS, given(FIELDS, typed, {fix: "target_epsilon"})), {
    dataset: "mnist", private: true, target_epsilon: 3, expected_batch_size: "4,096",
  });
  assert.deepEqual(toJson(FIELDS, {target_epsilon: "Infinity"}), {target_epsilon: "Infinity"});
});

test("an empty box that must hold something counts as that, and is no 0", () => {
  const emptied = given(FIELDS, {...TEXTS, target_epsilon: "", expected_batch_size: ""}, {fix: "noise_multiplier"});
  assert.deepEqual(missing(emptied), ["expected_batch_size"]);
  assert.equal(toJson(FIELDS, emptied).expected_batch_size, "");
  assert.deepEqual(missing(given(FIELDS, TEXTS, {fix: "target_epsilon"})), []);
});

test("the address holds every setting that counts", () => {
  assert.equal(toQuery({dataset: "mnist", delta: "1e-5"}), "dataset=mnist&delta=1e-5");
});

test("the same settings are the same however they were typed", () => {
  assert.ok(sameSettings({delta: "1e-5", steps: "300"}, {steps: "300.0", delta: "0.00001"}));
  assert.ok(!sameSettings({steps: "300"}, {steps: "301"}));
  assert.ok(!sameSettings({steps: "300"}, {steps: "300", seed: "7"}));
  assert.ok(!sameSettings({model: "mlp"}, {model: "cnn"}));
});

test("the settings of a run are those of an address", () => {
  const config = {kind: "training", audit: 2000, private: true, delta: 1e-5, noise_multiplier: null, model: "cnn"};
  assert.deepEqual(asTexts(config), {audit: "2000", private: "true", delta: "0.00001", model: "cnn"});
  assert.ok(sameSettings(asTexts(config), {audit: "2000", private: "true", delta: "1e-5", model: "cnn"}));
});

test("a choice moves the defaults that depend on it, and no typed value", () => {
  const fields = [{name: "audit", default: "2000"}, {name: "steps", default: "300"}];
  const defaultsOf = {sampling: {random_allocation: {audit: "0"}}, noise_bands: {8: {audit: "0"}}};
  const after = (sampling, audit, bands = "1") => defaultsAfter(fields, defaultsOf, {sampling, audit, noise_bands: bands, steps: "300"});
  assert.deepEqual(after("random_allocation", "2000"), {audit: "0"});
  assert.deepEqual(after("poisson", "0"), {audit: "2000"});
  assert.deepEqual(after("random_allocation", "100"), {});
  assert.deepEqual(after("poisson", "2000", "8"), {audit: "0"});
});
