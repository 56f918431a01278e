/** A picture, and what one division finds of it in a noisy gradient. */

import {Chart, text} from "../../../../../static/js/lib/svg.js";
import {bestRow, clippedSum, conclusion, decodePictures, linear, noiseOf, quotients, SIDE} from "../../../../../static/js/widgets/common/picture_gradient.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const SEED = 1;
const GAP = 24; // px between the pictures
const LARGEST = 7; // px of a pixel
const FOOT = 26; // px, for the names
const WHITE = 15; // largest shade

/** Pure: sentence about the release. */
export function sentence(epsilon, delta, right) {
  if (epsilon === "∞") return "No noise: the gradient is the picture, multiplied by one known number. Not private.";
  return `Whether this record was in, an attacker may say rightly ${right} % of the time (this run: one step, ε = ${epsilon}, δ = ${delta}). That you see no picture promises nothing.`;
}

/** Pure: best row of the noisy gradient at each noise, from one draw of the noise. */
export function releases({picture: coded, label, bound, noise}) {
  const recording = {models: {linear: linear()}, pictures: decodePictures(coded), labels: [label]};
  const sum = clippedSum(recording, {model: "linear", batch: 1, bound});
  const draws = noiseOf(sum.length, SEED);
  return noise.map((multiplier) => bestRow(quotients(sum, draws, multiplier * bound), recording.pictures[0]));
}

export function mount(element, data) {
  const slider = part(element, "noise");
  const speak = speaker(element);
  const found = releases(data);
  const record = decodePictures(data.picture)[0];
  const chart = new Chart(part(element, "pictures"), {
    height: (width) => SIDE * pixelOf(width) + FOOT, label: "The record, and what is found of it in the gradient", draw: () => draw(),
  });

  function draw() {
    const index = Number(slider.value);
    const {row, correlation} = found[index];
    const heading = conclusion({batch: 1, noise: data.noise[index]}, correlation, data.epsilons[index]);
    const words = `σ = ${data.noise[index]}`;
    write(element, "noise-words", words);
    slider.setAttribute("aria-valuetext", words);
    write(element, "title", heading);
    write(element, "fact", sentence(data.epsilons[index], data.delta, data.right[index]));
    speak(heading);
    if (chart.width) chart.show(both(pixelOf(chart.width), record, row));
  }
  slider.addEventListener("input", oncePerFrame(draw));
  draw();
}

/** Size of a picture's pixel, so that two pictures fit. */
const pixelOf = (width) => Math.min(LARGEST, Math.floor((width - GAP) / (2 * SIDE)));

function both(pixel, record, found) {
  const [right, foot] = [SIDE * pixel + GAP, SIDE * pixel + 18];
  return [...grey(0, pixel, record), ...grey(right, pixel, found), text([0, foot], "the record"), text([right, foot], "the gradient, divided")];
}

/** Picture with its darkest pixel black and its lightest white: one path for each shade. */
function grey(left, pixel, values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const paths = Array.from({length: WHITE + 1}, () => "");
  values.forEach((value, p) => {
    const shade = Math.round((WHITE * (value - low)) / (high - low || 1));
    paths[shade] += `M${left + pixel * (p % SIDE)} ${pixel * Math.floor(p / SIDE)}h${pixel}v${pixel}h${-pixel}z`;
  });
  return paths.flatMap((d, shade) => (d ? [{name: "path", attributes: {d, fill: `#${shade.toString(16).repeat(3)}`, "shape-rendering": "crispEdges"}}] : []));
}
