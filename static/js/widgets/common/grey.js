/** Small grey pictures as canvases. */

const WHITE = 15; // largest hexadecimal digit; each pixel is one digit

/** A square picture. @param {string} shades pixels from the top left @param {string} label text alternative */
export const greyPicture = (shades, label) => greyCanvas([...shades].map((shade) => parseInt(shade, 16)), label, [0, WHITE]);

/**
 * A square picture of numbers.
 * @param {ArrayLike<number>} values pixels from the top left @param {string} label text alternative
 * @param {[number, number]} range value of black and of white
 */
export function greyCanvas(values, label, [black, white]) {
  const side = Math.sqrt(values.length);
  const canvas = Object.assign(document.createElement("canvas"), {width: side, height: side});
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const image = new ImageData(side, side);
  for (let i = 0; i < values.length; i++) {
    const grey = (255 * (values[i] - black)) / (white - black || 1);
    image.data.set([grey, grey, grey, 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
