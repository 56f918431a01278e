/** Groups of runs: their logs, their words, their drawings, and what a sweep starts from. */

import assert from "node:assert/strict";
import {test} from "node:test";
import {endAccuracies, endEpsilons, epsilonOf, runsOf, splitBars} from "../../../static/js/groups/results.js";
import {GroupLog, endOf, rangesOf} from "../../../static/js/groups/group_log.js";
import {nextSeeds, suggestions, twinRates, typedValues, variations, withSeeds} from "../../../static/js/forms/query.js";
import {conclusion, memberWords, progressWords, splitOf, spread, valueWords} from "../../../static/js/groups/words.js";
import {labelWidth, overlap, touches} from "../../../static/js/charts/labels.js";
import {SEVERAL, chartOf, flat} from "../support.js";

const RATE = {name: "learning_rate", kind: "number", marks: [0.1, 1, 10, 100], choices: {}};
const SETTING = {label: "Learning rate", symbol: "η"};
const VIEW = {chart: {...SEVERAL.charts.sweep, ends: [75, 90]}, values: {range: [0.9, 4.4], log: true, ticks: [[1, "1"], [2, "2"], [4, "4"]], name: "η"}};

/** A group whose runs ended at these accuracies; null: still waits. */
function group(ends, more = {}) {
  const members = ends.map((_, i) => ({key: `r${i}`, id: `r${i}`, value: String(2 ** i), place: 2 ** i, colour: "private", private: true, planned: 300, ...more}));
  const log = new GroupLog(members);
  let id = 0;
  const add = (i, seq, kind, data) => log.add({id: ++id, run_id: `r${i}`, seq, kind, data});
  ends.forEach((end, i) => {
    add(i, 1, "state", {state: "queued"});
    if (end === null) return;
    add(i, 2, "state", {state: "running"});
    add(i, 3, "evaluation", {step: 100, epsilon: 0.5, test_accuracy: end - 0.02});
    add(i, 4, "evaluation", {step: 300, epsilon: 1, test_accuracy: end});
    add(i, 5, "end", {step: 300, epsilon: 1, test_accuracy: end});
    add(i, 6, "state", {state: "done"});
  });
  return log;
}

const written = (marks) => flat(marks).filter(({name}) => name === "text").map(({content}) => content);

test("events of all runs reach their own log, and doubled ones are passed over", () => {
  const log = group([0.85, null]);
  assert.equal(log.members[0].log.evaluations.length, 2);
  assert.equal(log.members[1].log.evaluations.length, 0);
  assert.equal(log.last, 7);
  log.add({id: 3, run_id: "r0", seq: 3, kind: "evaluation", data: {}});
  log.add({id: 99, run_id: "gone", seq: 1, kind: "state", data: {state: "done"}});
  assert.equal(log.members[0].log.evaluations.length, 2);
  assert.equal(log.last, 99);
});

test("a sweep says which value ends highest, and the range when all have ended", () => {
  assert.equal(conclusion("sweep", group([null, null]).members, SETTING), "Accuracy while they train");
  assert.equal(conclusion("sweep", group([0.81, null, 0.853]).members, SETTING), "So far η = 4 ends highest, at 85.3 %");
  assert.equal(conclusion("sweep", group([0.81, 0.853, 0.84]).members, SETTING), "η = 2 ends highest, at 85.3 %; all end between 81.0 % and 85.3 %");
});

/** A sweep with several seeds for each value: final accuracies by value. */
function repeated(byValue) {
  const log = group(byValue.flat());
  let i = 0;
  byValue.forEach((ends, place) => ends.forEach(() => Object.assign(log.members[i++], {together: `v${place}`, value: String(2 ** place), place: 2 ** place})));
  return log.members;
}

test("a sweep with seeds compares means, and calls overlapping ranges luck", () => {
  const near = repeated([[0.80, 0.84, 0.82], [0.85, 0.83, 0.86], [0.70, 0.71, 0.72]]);
  assert.equal(conclusion("sweep", near, SETTING), "η = 2 ends highest, at 84.7 % on average; η = 1 is within luck of it");
  const apart = repeated([[0.80, 0.81, 0.82], [0.85, 0.83, 0.86]]);
  assert.match(conclusion("sweep", apart, SETTING), /^η = 2 ends highest, .*; no other value is within luck of it$/);
  const touching = repeated([[0.80, 0.81, 0.83], [0.85, 0.83, 0.86]]);
  assert.match(conclusion("sweep", touching, SETTING), /η = 1 is within luck of it$/);
  const all = repeated([[0.80, 0.84], [0.85, 0.83], [0.7, 0.83]]);
  assert.match(conclusion("sweep", all, SETTING), /; all other values are within luck of it$/);
  const [value] = rangesOf(near, endOf);
  assert.deepEqual([value.low, value.high, value.count], [0.80, 0.84, 3]);
});

test("a value with a single finished run is not compared, and a sweep that trains has no verdict", () => {
  const waiting = repeated([[0.80, null], [0.85, 0.83]]);
  assert.equal(conclusion("sweep", waiting, SETTING), "So far η = 2 ends highest, at 84.0 % on average");
  for (const {log} of waiting) if (log.state === "queued") log.add({seq: 2, kind: "state", data: {state: "cancelled"}});
  assert.match(conclusion("sweep", waiting, SETTING), /; too few runs ended to tell it from luck$/);
  assert.equal(valueWords({members: waiting.slice(0, 2)}, "1.00"), "1 of 2 seeds, mean 80.0 %");
});

test("seeds say how much is luck", () => {
  assert.equal(conclusion("seeds", group([0.851, null]).members), "One of 2 seeds ended at 85.1 %");
  assert.equal(conclusion("seeds", group([0.851, 0.8535, 0.852]).members), "3 seeds end between 85.10 % and 85.35 %: luck alone moves a run by 0.25 points");
  assert.equal(spread([0.85, 0.86, null]), "Mean 85.50 %, from 85.00 % to 86.00 %");
  assert.equal(spread([0.85, null]), "");
});

/** The same, with runs that did not move over their last third. */
function settled(ends) {
  const {members} = group(ends);
  for (const {log} of members) if (log.evaluations.length) log.evaluations.splice(1, 0, {step: 200, test_accuracy: log.evaluations[1].test_accuracy - 0.001});
  return members;
}

test("the loss of a twin is split where the three can be compared, and privacy gives no accuracy", () => {
  assert.equal(conclusion("twin", group([0.84, 0.85, null]).members), "The loss is split when all three have ended");
  assert.equal(conclusion("twin", settled([0.84, 0.85, 0.853])), "Of 1.3 points of accuracy lost, clipping takes 0.3 and noise 1.0");
  assert.equal(conclusion("twin", settled([0.852, 0.85, 0.853])), "Of 0.1 points of accuracy lost, clipping takes 0.3 and noise none that shows");
  assert.equal(conclusion("twin", settled([0.851, 0.851, 0.851])), "No loss shows in one run of each");
  assert.equal(conclusion("twin", group([0.84, 0.85, 0.853]).members), "Not comparable yet: ordinary was still climbing at its last step");
  const unsuited = "points above ordinary, whose learning rate or length does not suit it";
  assert.equal(conclusion("twin", settled([0.84, 0.86, 0.85])), `Not comparable: clipped only ended 1.0 ${unsuited}`);
  assert.equal(conclusion("twin", settled([0.855, 0.851, 0.851])), `Not comparable: private ended 0.4 ${unsuited}`);
  for (const ends of [[0.84, 0.86, 0.85], [0.9, 0.8, 0.85], [0.851, 0.852, 0.851]]) assert.doesNotMatch(conclusion("twin", settled(ends)), /gives|gains/);
  const split = splitOf([0.84, 0.86, 0.85]);
  assert.ok(Math.abs(split.clipping + split.noise - split.total) < 1e-12);
});

test("a run that was stopped is no end, and none of them is a conclusion", () => {
  const log = group([null, null]);
  log.add({id: 50, run_id: "r0", seq: 2, kind: "evaluation", data: {step: 100, epsilon: 0.5, test_accuracy: 0.9}});
  log.add({id: 51, run_id: "r0", seq: 3, kind: "state", data: {state: "cancelled"}});
  log.add({id: 52, run_id: "r1", seq: 2, kind: "state", data: {state: "cancelled"}});
  assert.deepEqual([endOf(log.members[0]), epsilonOf(log.members[0])], [null, null]);
  assert.equal(conclusion("sweep", log.members, SETTING), "None of these runs reached its end");
  assert.equal(memberWords(log.members[0], "0.50"), "stopped");
});

test("progress says how many have ended", () => {
  const group = {ended: 4, total: 9, has_ended: false};
  assert.equal(progressWords(group), "4 of 9 runs have ended");
  assert.equal(progressWords({...group, ended: 9, has_ended: true}), "All 9 runs have ended");
});

test("every drawing of a group is finite while runs wait, train and have ended", () => {
  for (const ends of [[null, null, null], [0.85, null, null], [0.85, 0.8, 0.1]]) {
    for (const width of [150, 600]) {
      const {members} = group(ends);
      const all = [
        endAccuracies(chartOf(width, 260), members, VIEW),
        endEpsilons(chartOf(width, 260), members, VIEW),
        splitBars(chartOf(width, 150), splitOf(members.map(endOf))),
      ];
      for (const {attributes} of all.flatMap(flat)) {
        for (const value of Object.values(attributes)) assert.doesNotMatch(String(value), /NaN|Infinity|undefined/);
      }
    }
  }
});

test("the chart of ends has a dot for each run that ended, and its value below", () => {
  const marks = endAccuracies(chartOf(600, 260), group([0.8, null, 0.85]).members, VIEW);
  assert.equal(marks.filter(({name}) => name === "circle").length, 2);
  for (const words of ["1", "2", "4", "85.0 %", "η"]) assert.ok(written(marks).includes(words), words);
});

test("the labels of a sweep's chart are inside the plot and touch no mark", () => {
  const width = (words) => Math.ceil(labelWidth(words));
  const sweeps = [[[0.80, 0.84, 0.82], [0.85, 0.83, 0.86], [0.70, 0.71, 0.72]], [[0.98, 0.981, 0.979], [0.9805, 0.981, 0.982], [0.983, 0.984, 0.9835]], [[0.5], [0.8], [0.79]]];
  let labels = 0;
  for (const byValue of sweeps) {
    for (const across of [360, 600]) {
      const members = byValue[0].length > 1 ? repeated(byValue) : group(byValue.flat()).members;
      const marks = endAccuracies(chartOf(across, 260), members, VIEW);
      const points = ({attributes: {d}}) => [...d.matchAll(/(-?[\d.]+) (-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
      const lines = marks.filter(({attributes}) => /^line/.test(attributes.class ?? "") ).map(points);
      const dots = marks.filter(({name}) => name === "circle").map(({attributes: {cx, cy, r}}) => ({x: cx - r, y: cy - r, w: 2 * r, h: 2 * r}));
      const boxes = marks.filter(({attributes}) => /halo/.test(attributes.class ?? "")).map(({attributes: {x, y}, content}) => ({x, y: y - 13, w: width(content), h: 17, content}));
      labels += boxes.length;
      boxes.forEach((box, i) => {
        assert.ok(box.x >= 44 && box.x + box.w <= across - 12 && box.y >= 26 && box.y + box.h <= 216, box.content);
        for (const line of lines) line.forEach((point, k) => k > 0 && assert.ok(!touches(line[k - 1], point, box), `${box.content} on a line`));
        for (const other of [...dots, ...boxes.slice(0, i)]) assert.ok(!overlap(box, other), `${box.content} on a mark`);
      });
    }
  }
  assert.ok(labels >= 8, String(labels));
});

test("a run has ended for its chart when it has taken all its steps", () => {
  const runs = runsOf(group([0.84, null]).members);
  assert.deepEqual(runs.map(({is_done, evaluations}) => [is_done, evaluations.length]), [[true, 2], [false, 0]]);
});

test("a sweep starts with doublings around the present value, inside the marks", () => {
  assert.deepEqual(suggestions(RATE, "4"), ["1", "2", "4", "8", "16"]);
  assert.deepEqual(suggestions(RATE, "80"), ["20", "40", "80"]);
  assert.deepEqual(suggestions(RATE, "1000"), ["250", "500", "1000"]);
  assert.deepEqual(suggestions({...RATE, marks: []}, "3"), ["0.75", "1.5", "3", "6", "12"]);
  assert.deepEqual(suggestions({...RATE, marks: [1e-9, 1e-7, 1e-5]}, "1e-5"), ["2.5e-6", "5e-6", "1e-5"]);
  assert.deepEqual(suggestions({...RATE, kind: "integer", marks: []}, "1"), ["1", "2", "4"]);
});

test("a sweep starts with the marks where they are evenly spaced or nothing is set, and with all choices", () => {
  assert.deepEqual(suggestions({...RATE, marks: [0, 0.25, 0.5, 0.75]}, "0.9"), ["0", "0.25", "0.5", "0.75", "0.9"]);
  assert.deepEqual(suggestions(RATE, ""), ["0.1", "1", "10", "100"]);
  assert.deepEqual(suggestions(RATE, "abc"), ["0.1", "1", "10", "100"]);
  const choice = {...RATE, kind: "choice", choices: {sgd: "SGD", adam: "Adam"}};
  assert.deepEqual(suggestions(choice, "sgd"), ["sgd", "adam"]);
  assert.deepEqual(suggestions(choice, "sgd", ["sgd"]), ["sgd"]);
});

test("typed values are parted by spaces, and what is no number stays for the server to refuse", () => {
  assert.deepEqual(typedValues(" 1 2;3, 4 "), ["1", "2", "3", "4"]);
  assert.deepEqual(variations(RATE, "0,5 1 abc"), [{learning_rate: "0,5"}, {learning_rate: 1}, {learning_rate: "abc"}]);
  assert.deepEqual(variations(RATE, ""), []);
});

test("seeds go on from the present one", () => {
  assert.deepEqual(nextSeeds("7"), ["7", "8", "9", "10", "11"]);
  assert.deepEqual(nextSeeds(""), ["1", "2", "3", "4", "5"]);
  assert.deepEqual(withSeeds([{c: 1}, {c: 2}], "7", 2), [{c: 1, seed: 7}, {c: 2, seed: 7}, {c: 1, seed: 8}, {c: 2, seed: 8}]);
});

test("a twin starts from rates of its own model and data, and a box without one says why", () => {
  const tuned = {ordinary: {scattering_linear: {mnist: 0.0625}, logistic: {adult: 2}}, clipped: {scattering_linear: {mnist: 4}}};
  const here = twinRates(tuned, {model: "scattering_linear", dataset: "mnist", learning_rate: "8"});
  assert.deepEqual(here.values, ["8", "32", "0.0625"]);
  const adult = twinRates(tuned, {model: "logistic", dataset: "adult", learning_rate: "4"});
  assert.deepEqual(adult.values, ["4", "", "2"]);
  assert.match(adult.help, /Ordinary: 2, tuned .* Clipped only: not tuned here, so its box is empty/);
  const own = twinRates(tuned, {model: "mlp", dataset: "own-1", learning_rate: "x"});
  assert.deepEqual(own.values, ["", "", ""]);
  assert.match(own.help, /^Nobody has tuned ordinary training/);
});
