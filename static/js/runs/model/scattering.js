/**
 * Scattering features of a picture, with the definition of `training/datasets/scattering.py` (a test compares them): S x =
 * ( x ⋆ φ, |x ⋆ ψ| ⋆ φ, ||x ⋆ ψ| ⋆ ψ'| ⋆ φ ) every 4 pixels, J = 2 scales, L = 4 orientations, normalised in five
 * groups of channels. Source: Bruna and Mallat (2013), arXiv:1203.1513.
 */

const STRIDE = 4;
const FREQUENCY = (3 * Math.PI) / 4;
const WIDTH = 0.8;
const GROUPS = 5;
const TINY = 1e-5; // added to a variance, against division by zero

/**
 * @typedef {object} Matrix linear map along one axis
 * @property {number} rows
 * @property {number} columns
 * @property {Float64Array} values in row-major order
 */

/** Scattering features of square pictures of one size. */
export class Scattering {
  /** @param {number} size pixels per side, a multiple of 4 */
  constructor(size) {
    const grid = size + 2 * STRIDE;
    this.size = size;
    this.grid = grid;
    this.side = size / STRIDE;
    this.count = 25 * this.side ** 2;
    this.fine = bank(grid, 0);
    this.coarse = bank(grid, 1);
    this.blurs = [blur(grid, 0), blur(grid, 1)];
  }

  /** @param {ArrayLike<number>} picture [size, size], row-major @returns {Float64Array} [25 side²] */
  features(picture) {
    const padded = this.padded(picture);
    const fine = moduli(padded, this.grid, this.fine);
    const coarse = moduli(padded, this.grid, this.coarse);
    const pairs = fine.flatMap((map) => moduli(map, this.grid, this.coarse));
    const channels = [
      this.blurred(padded, 0),
      ...fine.map((map) => this.blurred(map, 0)),
      ...coarse.map((map) => this.blurred(map, 1)),
      ...pairs.map((map) => this.blurred(map, 1)),
    ];
    return normalised(channels);
  }

  /** Picture padded by reflection. */
  padded(picture) {
    const {size, grid} = this;
    const last = size - 1;
    const place = Array.from({length: grid}, (_, i) => last - Math.abs(last - Math.abs(i - STRIDE)));
    return Float64Array.from({length: grid * grid}, (_, i) => picture[place[Math.floor(i / grid)] * size + place[i % grid]]);
  }

  blurred(map, scale) {
    const matrix = this.blurs[scale];
    return down(across(map, matrix.rows, matrix), matrix.columns, matrix);
  }
}

/** One-dimensional factors of the four wavelets of a scale. */
function bank(grid, scale) {
  const frequency = FREQUENCY / 2 ** scale;
  const sigma = WIDTH * 2 ** scale;
  const stride = 2 ** scale;
  const [envelope, straight, slanted] = [0, frequency, frequency / Math.SQRT2].map((wave) => periodic(grid, sigma, wave));
  const share = (wave) => total(wave.real) / total(envelope.real);
  const g = circulant(envelope.real, stride);
  const even = envelope.real.map((value, i) => straight.real[i] - share(straight) * value);
  return {
    amount: 1 / (2 * Math.PI * sigma ** 2),
    mean: share(slanted) ** 2,
    g,
    wave: [circulant(even, stride), circulant(straight.imag, stride)],
    slant: [circulant(slanted.real, stride), circulant(slanted.imag, stride)],
  };
}

/** |map ⋆ ψ| for waves along x, one diagonal, y, and the other diagonal. */
function moduli(map, rows, {amount, mean, g, wave, slant}) {
  const x = (matrix) => across(map, rows, matrix);
  const [flat, cos, sin] = [x(g), x(slant[0]), x(slant[1])];
  const y = (part, matrix) => down(part, g.columns, matrix);
  const [cc, ss, cs, sc, gg] = [y(cos, slant[0]), y(sin, slant[1]), y(cos, slant[1]), y(sin, slant[0]), y(flat, g)];
  const length = (real, imag) => real.map((value, i) => amount * Math.hypot(value, imag[i]));
  return [
    length(y(x(wave[0]), g), y(x(wave[1]), g)),
    length(cc.map((value, i) => value - ss[i] - mean * gg[i]), cs.map((value, i) => value + sc[i])),
    length(y(flat, wave[0]), y(flat, wave[1])),
    length(cc.map((value, i) => value + ss[i] - mean * gg[i]), cs.map((value, i) => value - sc[i])),
  ];
}

/** Product of every row of a map with a matrix. @param {Float64Array} map [rows, matrix.rows] */
function across(map, rows, {rows: inner, columns, values}) {
  const out = new Float64Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    for (let i = 0; i < inner; i++) {
      const value = map[r * inner + i];
      if (value !== 0) for (let c = 0; c < columns; c++) out[r * columns + c] += value * values[i * columns + c];
    }
  }
  return out;
}

/** Product of every column of a map with a matrix. @param {Float64Array} map [matrix.rows, width] */
function down(map, width, {rows: inner, columns, values}) {
  const out = new Float64Array(columns * width);
  for (let i = 0; i < inner; i++) {
    for (let c = 0; c < columns; c++) {
      const weight = values[i * columns + c];
      for (let x = 0; x < width; x++) out[c * width + x] += weight * map[i * width + x];
    }
  }
  return out;
}

/** g(u) e^{i frequency u}, periodic on the grid. */
function periodic(grid, sigma, frequency) {
  const real = new Float64Array(grid);
  const imag = new Float64Array(grid);
  for (let u = -4 * grid; u < 4 * grid; u++) {
    const envelope = Math.exp(-(u ** 2) / (2 * sigma ** 2));
    const at = ((u % grid) + grid) % grid;
    real[at] += envelope * Math.cos(frequency * u);
    imag[at] += envelope * Math.sin(frequency * u);
  }
  return {real, imag};
}

/** Convolution with a periodic function, sampled every `stride` positions. @returns {Matrix} */
function circulant(wave, stride) {
  const grid = wave.length;
  const columns = grid / stride;
  const values = Float64Array.from({length: grid * columns}, (_, i) => {
    const shift = (i % columns) * stride - Math.floor(i / columns);
    return wave[((shift % grid) + grid) % grid];
  });
  return {rows: grid, columns, values};
}

/** Convolution with φ for maps of a scale, sampled every 4 pixels inside the padding. @returns {Matrix} */
function blur(grid, scale) {
  const sigma = 2 * WIDTH;
  const step = 2 ** scale;
  const whole = circulant(periodic(grid, sigma, 0).real, STRIDE);
  const columns = whole.columns - 2;
  const rows = grid / step;
  const factor = step / Math.sqrt(2 * Math.PI * sigma ** 2);
  const values = Float64Array.from({length: rows * columns}, (_, i) =>
    factor * whole.values[Math.floor(i / columns) * step * whole.columns + (i % columns) + 1]);
  return {rows, columns, values};
}

/** Channels in five groups, each normalised to mean 0 and variance 1. */
function normalised(channels) {
  const size = channels.length / GROUPS;
  return Float64Array.from(Array.from({length: GROUPS}, (_, k) => {
    const group = channels.slice(k * size, (k + 1) * size).flatMap((channel) => Array.from(channel));
    const mean = total(group) / group.length;
    const variance = total(group.map((value) => (value - mean) ** 2)) / group.length;
    return group.map((value) => (value - mean) / Math.sqrt(variance + TINY));
  }).flat());
}

const total = (values) => values.reduce((sum, value) => sum + value, 0);
