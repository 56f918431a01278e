/** The weights of a linear model on pictures, as one picture a class. Pure. */

import {percent} from "../../lib/format.js";

const RIM = 2; // pixels at each side where no picture has ink
const SHARE = 0.995; // of the weights are within the scale; those beyond look like its end
const DROWNED = 0.8;
const FAINT = 0.05;

/** The change that is drawn in full colour. @param {Float32Array} change */
export function fullColour(change) {
  const sizes = Float32Array.from(change, Math.abs).sort();
  return sizes[Math.floor(SHARE * (sizes.length - 1))] || sizes.at(-1) || 1;
}

/** How strong the rim of all pictures is beside what it encloses, 0 to 1 and beyond; null if nothing has changed. */
export function rimStrength(change, side) {
  const sums = {rim: 0, middle: 0};
  const counts = {rim: 0, middle: 0};
  change.forEach((value, i) => {
    const [row, column] = [Math.floor(i / side) % side, i % side];
    const isRim = Math.min(row, column, side - 1 - row, side - 1 - column) < RIM;
    const part = isRim ? "rim" : "middle";
    sums[part] += value * value;
    counts[part] += 1;
  });
  if (sums.middle === 0) return null;
  return Math.sqrt(sums.rim / counts.rim / (sums.middle / counts.middle));
}

/**
 * Pixels for a canvas: the colour says for or against, its opacity how much.
 * @param {Float32Array} change of one class
 * @param {number} full the change in full colour
 * @param {number[]} speaks red, green and blue of what speaks for the class
 * @param {number[]} against of what speaks against it
 */
export function pixels(change, full, speaks, against) {
  const data = new Uint8ClampedArray(4 * change.length);
  change.forEach((value, i) => {
    data.set(value > 0 ? speaks : against, 4 * i);
    data[4 * i + 3] = Math.round(255 * Math.min(1, Math.abs(value) / full));
  });
  return data;
}

/** @param {number | null} strength of the rim @param {boolean} noisy whether noise is added */
export function weightsConclusion(strength, noisy) {
  if (strength === null) return "No weight has moved yet";
  const share = percent(strength, 0);
  if (!noisy) return strength < FAINT ? "Without noise the rim, where no picture has ink, stays empty" : `The rim, where few pictures have ink, has moved ${share} as far as the middle`;
  if (strength > DROWNED) return `Noise drowns the pictures: the rim, where hardly one has ink, has moved ${share} as far as the middle`;
  return `The pictures show through the noise: the rim, where hardly one has ink, has moved ${share} as far as the middle`;
}

/** @param {Float32Array} change of a layer's filters @param {Float32Array} start what they were */
export function filtersConclusion(change, start) {
  const size = (values) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  const moved = size(change) / size(start);
  if (moved === 0) return "No weight has moved yet";
  return `The filters of the first layer have moved ${moved.toFixed(1)} times as far as they were from zero`;
}

/** One row a class: where ink speaks most for it and most against it. */
export function weightRows(change, side, labels) {
  const size = side * side;
  return labels.map((label, c) => {
    const own = Array.from(change.subarray(c * size, (c + 1) * size));
    const [high, low] = [Math.max(...own), Math.min(...own)];
    return [label, ...extreme(own, high, side), ...extreme(own, low, side)];
  });
}

function extreme(own, value, side) {
  const at = own.indexOf(value);
  return [value.toFixed(3).replace("-", "−"), `${Math.floor(at / side) + 1}, ${(at % side) + 1}`];
}
