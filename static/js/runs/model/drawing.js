/** Hand-drawn picture, and its preparation in the style of the data set. Pure functions. */

const BRUSH = 1.7; // px, radius of the brush
const SOFT = 0.8; // px over which the ink fades at the brush's edge
const BOX = 20; // px, MNIST scales digits to a box of 20 × 20
const MOST_GROWN = 3;
const INKED = 0.1;

/** An empty picture. @param {number} side @returns {Float32Array} */
export const blank = (side) => new Float32Array(side * side);

/** Add a stroke between two points, in pixels of the picture. @param {Float32Array} ink */
export function stroke(ink, side, [x0, y0], [x1, y1]) {
  const length = Math.hypot(x1 - x0, y1 - y0);
  const places = Math.max(1, Math.ceil(2 * length));
  for (let k = 0; k <= places; k++) {
    const t = k / places;
    stamp(ink, side, x0 + t * (x1 - x0), y0 + t * (y1 - y0));
  }
}

function stamp(ink, side, x, y) {
  for (let row = Math.max(0, Math.floor(y - BRUSH)); row <= Math.min(side - 1, y + BRUSH); row++) {
    for (let column = Math.max(0, Math.floor(x - BRUSH)); column <= Math.min(side - 1, x + BRUSH); column++) {
      const distance = Math.hypot(column + 0.5 - x, row + 0.5 - y);
      const amount = Math.min(1, Math.max(0, (BRUSH - distance) / SOFT));
      ink[row * side + column] = Math.max(ink[row * side + column], amount);
    }
  }
}

/**
 * Drawing prepared like MNIST's digits: scaled to a box of 20 × 20 pixels, with its centre of mass in the middle.
 * @returns {Float32Array | null} null for an empty drawing
 */
export function prepared(ink, side) {
  const box = inkBox(ink, side);
  if (!box) return null;
  const scale = Math.min(MOST_GROWN, BOX / Math.max(box.width, box.height));
  const middle = [box.left + box.width / 2, box.top + box.height / 2];
  const scaled = resampled(ink, side, scale, middle, [side / 2, side / 2]);
  return resampled(scaled, side, 1, centre(scaled, side), [side / 2, side / 2]);
}

function inkBox(ink, side) {
  const places = [...ink.keys()].filter((i) => ink[i] > INKED);
  if (places.length === 0) return null;
  const rows = places.map((i) => Math.floor(i / side));
  const columns = places.map((i) => i % side);
  const [left, top] = [Math.min(...columns), Math.min(...rows)];
  return {left, top, width: Math.max(...columns) + 1 - left, height: Math.max(...rows) + 1 - top};
}

/** Centre of mass of the ink: column and row. */
function centre(ink, side) {
  let [mass, x, y] = [0, 0, 0];
  ink.forEach((amount, i) => {
    mass += amount;
    x += amount * ((i % side) + 0.5);
    y += amount * (Math.floor(i / side) + 0.5);
  });
  return [x / mass, y / mass];
}

const SAMPLES = [-0.375, -0.125, 0.125, 0.375]; // px, offsets of the samples within a pixel along each axis

/** Picture scaled around `from`, which moves to `to`. */
function resampled(ink, side, scale, from, to) {
  return Float32Array.from(ink, (_, i) => {
    const x = (i % side) + 0.5 - to[0];
    const y = Math.floor(i / side) + 0.5 - to[1];
    let sum = 0;
    for (const dx of SAMPLES) for (const dy of SAMPLES) sum += between(ink, side, (x + dx) / scale + from[0] - 0.5, (y + dy) / scale + from[1] - 0.5);
    return sum / SAMPLES.length ** 2;
  });
}

/** Bilinear interpolation of the ink between four pixels. */
function between(ink, side, x, y) {
  const [column, row] = [Math.floor(x), Math.floor(y)];
  const [u, v] = [x - column, y - row];
  const at = (r, c) => (r < 0 || c < 0 || r >= side || c >= side ? 0 : ink[r * side + c]);
  return (1 - v) * ((1 - u) * at(row, column) + u * at(row, column + 1)) + v * ((1 - u) * at(row + 1, column) + u * at(row + 1, column + 1));
}

/**
 * Heading with the predictions of both models.
 * @param {string} prediction of the shown model @param {string | null} twin
 */
export function answerConclusion(prediction, twin, noisy) {
  if (prediction === null) return "Draw one yourself, and see what the model reads";
  const name = noisy ? "the private model" : "the model";
  if (twin === null) return `${capital(name)} reads ${prediction}`;
  if (prediction === twin) return `Both models read ${prediction}`;
  return `${capital(name)} reads ${prediction}, its twin ${twin}`;
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);
