/**
 * What a `model` event packs into base64, unpacked; see `training/model_snapshots.py`.
 *
 * @typedef {object} Tensor
 * @property {number[]} shape
 * @property {Float32Array} values in the order of the shape, the last axis first
 *
 * @typedef {object} Picture
 * @property {number} index among the test records
 * @property {number} label
 * @property {Float32Array} ink 0 to 1, row by row
 */

const SKIP = 15;

/** @param {string} text base64 @returns {Uint8Array} */
export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Each parameter by its name. @returns {Record<string, Tensor>} */
export function tensors(weights) {
  return Object.fromEntries(Object.entries(weights).map(([name, entry]) => [name, tensor(entry)]));
}

function tensor({shape, scale, values}) {
  const levels = new Int8Array(bytes(values).buffer);
  return {shape, values: Float32Array.from(levels, (level) => level * scale)};
}

/** Which test record is misread as what. @param {string} text @returns {Map<number, number>} */
export function misreadRecords(text) {
  const found = new Map();
  let place = 0;
  for (const byte of bytes(text)) {
    const [upper, lower] = [byte >> 4, byte & 15];
    if (upper === SKIP) place += SKIP * (lower + 1);
    else {
      place += upper;
      found.set(place, lower);
      place += 1;
    }
  }
  return found;
}

/** @returns {Picture[]} */
export function pictures({shape, indices, labels, values}) {
  const shades = Array.from(bytes(values), (byte) => [byte >> 4, byte & 15]).flat();
  const size = shape[0] * shape[1];
  return indices.map((index, i) => ({
    index,
    label: labels[i],
    ink: Float32Array.from(shades.slice(i * size, (i + 1) * size), (shade) => shade / 15),
  }));
}
