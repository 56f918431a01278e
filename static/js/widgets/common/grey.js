/** Small grey pictures as canvases. */

const WHITE = 15; // largest hexadecimal digit; each pixel is one digit

/** A square picture. @param {string} shades pixels from the top left @param {string} label text alternative */
export function greyPicture(shades, label) {
  const side = Math.sqrt(shades.length);
  const canvas = Object.assign(document.createElement("canvas"), {width: side, height: side});
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const image = new ImageData(side, side);
  for (let i = 0; i < shades.length; i++) {
    const grey = (255 * parseInt(shades[i], 16)) / WHITE;
    image.data.set([grey, grey, grey, 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
