/** A picture, and what one division finds of it in a noisy gradient. */

import {bestRow, clippedSum, conclusion, decodePictures, linear, noiseOf, picture, quotients} from "../../../../../static/js/widgets/common/picture_gradient.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const SEED = 1;

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
  part(element, "record").replaceChildren(picture(decodePictures(data.picture)[0], `The record: a handwritten ${data.label}`));

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
    part(element, "found").replaceChildren(picture(row, heading));
  }
  slider.addEventListener("input", oncePerFrame(draw));
  draw();
}
