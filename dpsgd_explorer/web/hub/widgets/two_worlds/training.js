/**
 * DP-SGD on the line through 24 points, as in `figures/toy_training.py`: Poisson sampling, clipped gradients,
 * Gaussian noise on their sum, division by the expected batch size. Random numbers are seeded and drawn once, so that
 * a slider changes the same trainings. Illustration only: the server draws the noise of real runs.
 */

import {Generator} from "../../../../../static/js/widgets/common/random.js";
import {moved} from "../../../../../static/js/widgets/common/toy_problem.js";

const EVERYONE = 0xffffff; // one bit per record

/** Functions from two random words to a step's records: all, a half or a quarter of them. */
export const MASKS = new Map([
  [1, () => EVERYONE],
  [0.5, (first) => first],
  [0.25, (first, second) => first & second],
]);

/** Random words and normal values for all trainings of one world. */
export function drawChance(seed, {steps, pilots, counts}) {
  const source = new Generator(seed);
  const size = 2 * (pilots + Math.max(...counts)) * steps;
  const words = new Int32Array(size);
  for (let i = 0; i < words.length; i++) words[i] = source.bits();
  return {words, noise: source.normals(new Float32Array(size))};
}

/**
 * Final θ of `count` trainings, as a, b, a, b, …
 * A gradient is r·(x, 1) with residual r, so clipping it to C equals clipping r to C/‖(x, 1)‖.
 */
export function train(records, chance, {steps, sampleRate, noise, bound, learningRate, expected, count}) {
  const [x, y] = [0, 1].map((i) => Float64Array.from(records, (record) => record[i]));
  const limits = x.map((value) => bound / Math.hypot(value, 1));
  const mask = MASKS.get(sampleRate);
  const rate = learningRate / expected;
  const spread = noise * bound;
  const ends = new Float64Array(2 * count);
  for (let m = 0; m < count; m++) {
    let a = 0;
    let b = 0;
    for (let offset = 2 * m * steps, end = offset + 2 * steps; offset < end; offset += 2) {
      const drawn = mask(chance.words[offset], chance.words[offset + 1]);
      let slope = spread * chance.noise[offset];
      let intercept = spread * chance.noise[offset + 1];
      for (let i = 0; i < x.length; i++) {
        if (!((drawn >> i) & 1)) continue;
        let residual = a * x[i] + b - y[i];
        if (residual > limits[i]) residual = limits[i];
        else if (residual < -limits[i]) residual = -limits[i];
        slope += residual * x[i];
        intercept += residual;
      }
      a -= rate * slope;
      b -= rate * intercept;
    }
    ends[2 * m] = a;
    ends[2 * m + 1] = b;
  }
  return ends;
}

/** Mean of a cloud, and its scatter (sums of products): [a, b, aa, ab, bb]. */
function moments(ends, count) {
  let [a, b, aa, ab, bb] = [0, 0, 0, 0, 0];
  for (let m = 0; m < count; m++) {
    a += ends[2 * m] / count;
    b += ends[2 * m + 1] / count;
  }
  for (let m = 0; m < count; m++) {
    const [u, v] = [ends[2 * m] - a, ends[2 * m + 1] - b];
    aa += u * u;
    ab += u * v;
    bb += v * v;
  }
  return [a, b, aa, ab, bb];
}

/** Fisher's linear discriminant of the pilot trainings of two worlds, scaled to unit standard deviation. */
export function bestAxis(worlds, pilots) {
  const [first, second] = worlds.map((ends) => moments(ends, pilots));
  const [aa, ab, bb] = [2, 3, 4].map((i) => (first[i] + second[i]) / (2 * pilots - 2));
  const [da, db] = [second[0] - first[0], second[1] - first[1]];
  const determinant = aa * bb - ab * ab;
  const [u, v] = [(bb * da - ab * db) / determinant, (aa * db - ab * da) / determinant];
  const size = Math.sqrt(aa * u * u + 2 * ab * u * v + bb * v * v) || 1;
  const direction = [u / size, v / size];
  const step = [aa * direction[0] + ab * direction[1], ab * direction[0] + bb * direction[1]];
  return {direction, step, middle: [(first[0] + second[0]) / 2, (first[1] + second[1]) / 2], means: [first.slice(0, 2), second.slice(0, 2)]};
}

/** Scores of the trainings after the pilots, in standard deviations from the midpoint of both worlds. */
export function scores({direction, middle}, ends, pilots) {
  const count = ends.length / 2 - pilots;
  return Float64Array.from({length: count}, (_, i) => {
    const m = 2 * (pilots + i);
    return direction[0] * (ends[m] - middle[0]) + direction[1] * (ends[m + 1] - middle[1]);
  });
}

/** Number of scores above a threshold. */
export const beyond = (values, cut) => values.reduce((sum, value) => sum + (value > cut), 0);

/** Trainings of both worlds with their scores along the best axis; `state` is the widget's state. */
export function attack(data, chances, state, noise = data.noise[state.noise], count = state.count) {
  const {sample_rate: sampleRate} = data.rates[state.rate];
  const records = moved(data, state.record);
  const settings = {
    steps: data.steps, sampleRate, noise, bound: state.bound, learningRate: data.learning_rate,
    expected: sampleRate * records.length, count: data.pilots + count,
  };
  const without = records.filter((_, i) => i !== data.odd);
  const ends = [train(without, chances[0], settings), train(records, chances[1], settings)];
  const axis = bestAxis(ends, data.pilots);
  return {axis, ends, scores: ends.map((values) => scores(axis, values, data.pilots))};
}
