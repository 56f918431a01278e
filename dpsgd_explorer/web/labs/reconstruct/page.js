/** Reconstruction lab: sliders set the state, and everything on the page is computed from it. */

import {decimals} from "../../../../static/js/lib/format.js";
import {openPage} from "../../../../static/js/lib/page.js";
import {greyCanvas} from "../../../../static/js/widgets/common/grey.js";
import {conclusion, decode, release} from "../../../../static/js/widgets/common/picture_gradient.js";
import {ofAddress, toAddress} from "./address.js";

const LISTS = {batch: "batches", bound: "bounds", noise: "noise"};

const {data, part} = openPage("lab");
const recording = decode(data.recorded);
const {elements} = part("settings");
const first = ofAddress(location.search, data, LISTS);
let {seed} = first;

for (const [name, index] of Object.entries(first.places)) elements[name].value = String(index);
if (first.model) elements.model.value = first.model;
part("settings").addEventListener("input", show);
part("settings").addEventListener("change", link); // on release of a slider, because browsers limit the rate of address changes
part("settings").addEventListener("submit", (event) => event.preventDefault());
part("again").addEventListener("click", () => {
  seed += 1;
  show();
  link();
});
addEventListener("pageshow", show); // also after the browser restores the form

/** State of the controls. */
function state() {
  const values = Object.entries(LISTS).map(([name, list]) => [name, data[list][Number(elements[name].value)]]);
  return {...Object.fromEntries(values), model: elements.model.value, seed};
}

/** Update the address. */
function link() {
  history.replaceState(null, "", toAddress(state()));
}

function show() {
  const now = state();
  const {found, means} = release(recording, now, data.noise);
  const average = found.reduce((sum, match) => sum + match.correlation, 0) / found.length;
  for (const name of Object.keys(LISTS)) {
    elements[name].setAttribute("aria-valuetext", String(now[name]));
    part(`said=${name}`).textContent = String(now[name]);
  }
  part("announce").textContent = part("conclusion").textContent = conclusion(now, average, data.epsilons[data.noise.indexOf(now.noise)].known);
  part("pictures").replaceChildren(...found.map((match, i) => pair(match, i)));
  showRows(means);
}

function showRows(means) {
  const [batch, noise] = [Number(elements.batch.value), Number(elements.noise.value)];
  for (const [i, row] of [...part("rows").rows].entries()) {
    row.querySelector("[data-secret]").textContent = data.epsilons[i].secret[batch];
    row.querySelector("[data-correlation]").textContent = decimals(means[i]);
    if (i === noise) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
}

const picture = (values, label) => greyCanvas(values, label, [Math.min(...values), Math.max(...values)]);

function pair({row, correlation}, i) {
  const label = recording.labels[i];
  const figure = document.createElement("figure");
  figure.className = "pair-of";
  const caption = Object.assign(document.createElement("figcaption"), {textContent: `a ${label}, r = ${decimals(correlation)}`});
  figure.append(picture(recording.pictures[i], `The record: a handwritten ${label}`), picture(row, `Reconstructed, correlation ${decimals(correlation)} with the record`), caption);
  return figure;
}
