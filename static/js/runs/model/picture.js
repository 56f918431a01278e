/** Pixels of a picture in ink, for a canvas. Pure. */

/** @param {ArrayLike<number>} ink 0 to 1 @param {number[]} colour red, green and blue */
export function inked(ink, colour) {
  const data = new Uint8ClampedArray(4 * ink.length);
  ink.forEach((amount, i) => {
    data.set(colour, 4 * i);
    data[4 * i + 3] = Math.round(255 * amount);
  });
  return data;
}
