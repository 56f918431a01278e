import assert from "node:assert/strict";
import {test} from "node:test";
import {density, interval, meanOfShares} from "../../../static/js/widgets/common/statistics.js";
import {mostHits, placeAbove} from "../../../dpsgd_explorer/web/hub/widgets/two_worlds/limit.js";
import {MASKS, attack, bestAxis, beyond, drawChance, scores, train} from "../../../dpsgd_explorer/web/hub/widgets/two_worlds/training.js";
import {chance, conclusion, odds, percentUp} from "../../../dpsgd_explorer/web/hub/widgets/two_worlds/words.js";

const PAIR = [[1, 0.4], [Math.E, 0.001]];
const LIMITS = [["this run", "ε alone"], {most: ["70", "74"]}];
const CHANCE = {steps: 3, pilots: 2, counts: [4]};

test("the interval of a share is Wilson's and stays within 0 and 1", () => {
  const [low, high] = interval(10, 100);
  assert.ok(Math.abs(low - 0.0552) < 1e-4 && Math.abs(high - 0.1744) < 1e-4);
  assert.equal(interval(0, 200)[0], 0);
  assert.equal(interval(200, 200)[1], 1);
  const [share, from, to] = meanOfShares(0.5, 0.5, 100);
  assert.ok(share === 0.5 && Math.abs(to - from - 2 * 0.0693) < 1e-3);
});

test("a density sums to one, also of equal values", () => {
  const places = Array.from({length: 401}, (_, i) => -10 + i / 20);
  for (const values of [[0, 1, 2, -1.5], [3, 3, 3]]) {
    const sum = density(values, places).reduce((total, height) => total + height / 20, 0);
    assert.ok(Math.abs(sum - 1) < 1e-3, String(sum));
  }
});

test("the limit is the least of all lines, never below guessing, never above one", () => {
  assert.equal(mostHits(PAIR, 0), 0.001);
  assert.ok(Math.abs(mostHits(PAIR, 0.1) - (0.1 * Math.E + 0.001)) < 1e-12);
  assert.equal(mostHits(PAIR, 1), 1);
  assert.equal(mostHits([[1, 0]], 0.3), 0.3);
  for (let i = 0; i <= 100; i++) assert.ok(mostHits(PAIR, i / 100) >= i / 100);
});

test("words about the limit stand above it, clear of it and of the limit of ε alone", () => {
  const frame = {x: (share) => 44 + 300 * share, y: (share) => 28 + 150 * (1 - share)};
  const [width, height] = [64, 32];
  const found = [0.3, 1, 2, 3.5, 30].map((epsilon) => {
    const alone = [Math.exp(epsilon), 0.001];
    const run = [[1, (Math.exp(epsilon / 4) - 1) / (Math.exp(epsilon / 4) + 1)], alone]; // bounds the sum of both errors too
    const place = placeAbove(run, frame, [width, height]);
    for (let i = 0; place && i <= 300; i++) {
      const across = frame.x(i / 300);
      if (across < place[0] || across > place[0] + width) continue;
      assert.ok(frame.y(mostHits(run, i / 300)) > place[1] + height);
      const dashed = frame.y(mostHits([alone], i / 300));
      assert.ok(dashed > place[1] + height || dashed < place[1], `${epsilon}`);
    }
    return place && frame.y(mostHits([alone], (place[0] - 44) / 300)) < place[1];
  });
  assert.deepEqual(found, [false, false, true, true, null]); // above both, between them, nowhere
});

test("a quarter, a half and all of the records are drawn", () => {
  const {words} = drawChance(1, {steps: 500, pilots: 20, counts: [20]});
  for (const [rate, mask] of MASKS) {
    let bits = 0;
    for (let i = 0; i < words.length; i += 2) for (let k = 0; k < 24; k++) bits += (mask(words[i], words[i + 1]) >> k) & 1;
    assert.ok(Math.abs(bits / (12 * words.length) - rate) < 0.004, `${rate}`);
  }
});

test("training clips each gradient to C and divides by the expected size", () => {
  const still = {words: new Int32Array(2), noise: new Float32Array(2)};
  const step = (records, bound) => train(records, still, {steps: 1, sampleRate: 1, noise: 5, bound, learningRate: 1, expected: 2, count: 1});
  assert.deepEqual([...step([[0, 8]], 1)], [0, 0.5]); // a pull of 8, clipped to 1
  assert.deepEqual([...step([[0, 8]], 100)], [0, 4]);
  const [a, b] = step([[0.75, -8]], 1); // along (0.75, 1), of length 1.25
  assert.ok(Math.abs(Math.hypot(a, b) - 0.5) < 1e-12 && Math.abs(a / b - 0.75) < 1e-12);
  assert.deepEqual([...train([[0, 8]], {words: still.words, noise: Float32Array.of(2, -1)}, {steps: 1, sampleRate: 0.5, noise: 3, bound: 1, learningRate: 1, expected: 2, count: 1})], [-3, 1.5]);
});

test("chance is drawn once per seed, so a slider moves the same trainings", () => {
  assert.deepEqual(drawChance(5, CHANCE), drawChance(5, CHANCE));
  assert.notDeepEqual(drawChance(5, CHANCE).words, drawChance(6, CHANCE).words);
  assert.equal(drawChance(5, CHANCE).words.length, 2 * 6 * 3);
});

test("a record that is dragged to the others is hit less, and so is none that is far off", () => {
  const line = Array.from({length: 9}, (_, i) => [i / 4 - 1, i / 4 - 1]);
  const data = {
    records: [...line, [1, -3]], odd: 9, steps: 20, pilots: 40, counts: [200], learning_rate: 0.25,
    noise: [1], rates: [{sample_rate: 1}],
  };
  const chances = [1, 2].map((seed) => drawChance(seed, data));
  const advantage = (record) => {
    const [alarms, hits] = attack(data, chances, {rate: 0, noise: 0, bound: 1, count: 200, record}).scores.map((values) => beyond(values, 0));
    return hits - alarms;
  };
  assert.ok(advantage([1, -3]) > 100);
  assert.ok(advantage([0.5, 0.5]) < 60);
  assert.deepEqual(data.records[9], [1, -3]);
});

test("the axis is chosen on pilots alone, and scores leave them out", () => {
  const left = [0, 0, 0, 1, 1, 0, 1, 1];
  const right = left.map((value, i) => value + (i % 2 ? 0 : 10));
  const axis = bestAxis([[...left, 99, 99], [...right, -99, 99]], 4);
  assert.ok(Math.abs(axis.direction[1]) < 1e-12 && axis.direction[0] > 0);
  assert.deepEqual(axis.middle, [5.5, 0.5]);
  const found = scores(axis, [...right, 5.5, 7], 4);
  assert.equal(found.length, 1);
  assert.ok(Math.abs(found[0]) < 1e-9);
  assert.equal(beyond([0.5, 1, 2], 1), 1);
});

test("limits are rounded up, shares to nearest", () => {
  assert.equal(percentUp(0.7001), "71 %");
  assert.equal(percentUp(0.7), "70 %");
  assert.match(conclusion({hits: 190, alarms: 74, count: 200}, ...LIMITS), /right 79 % of the time, by chance beyond the limit; at most \(this run: 70 %; ε alone: 74 %\)/);
  assert.equal(conclusion({hits: 120, alarms: 74, count: 200}, ...LIMITS), "The attacker is right 62 % of the time; at most (this run: 70 %; ε alone: 74 %)");
});

test("odds are said at every threshold, also where nothing or nobody is called", () => {
  assert.match(odds({hits: 0, alarms: 0, count: 200}, PAIR), /never says/);
  assert.match(odds({hits: 9, alarms: 0, count: 200}, PAIR), /9 times in 200 .* up to 1\.9 %/);
  assert.match(odds({hits: 60, alarms: 20, count: 200}, PAIR), /3\.0 to 1: 60 hits against 20 false alarms.*at most 2\.8 to 1\.$/);
  assert.match(odds({hits: 1, alarms: 1, count: 200}, PAIR), /1 hit against 1 false alarm\./);
});

test("a dot beyond the limit is called chance, with the scatter of so many trainings", () => {
  assert.equal(chance({hits: 40, alarms: 20, count: 200}, PAIR), "");
  assert.match(chance({hits: 60, alarms: 20, count: 200}, PAIR), /by chance: shares of 200 trainings scatter by some 6 points/);
  assert.match(chance({hits: 300, alarms: 100, count: 1000}, PAIR), /some 3 points/);
});
