/** Pareto fronts: arrow keys move from dot to dot along ε, Enter follows a dot's link. */

import {savePicture} from "../lib/picture.js";

const STEPS = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};

for (const figure of document.querySelectorAll("[data-pareto-page] figure")) wire(figure);

function wire(figure) {
  for (const button of figure.querySelectorAll("[data-save]")) button.addEventListener("click", () => save(figure, button.dataset.save));
  const words = figure.querySelector("[data-dot-words]");
  for (const drawing of figure.querySelectorAll("[data-dots]")) {
    const dots = [...drawing.querySelectorAll("a")];
    dots.forEach((dot, i) => dot.setAttribute("tabindex", i === 0 ? "0" : "-1"));
    drawing.addEventListener("keydown", (event) => {
      const to = target(event.key, dots, dots.indexOf(document.activeElement));
      if (to === null) return;
      event.preventDefault();
      dots[to].focus();
    });
    for (const name of ["focusin", "pointerover"]) {
      drawing.addEventListener(name, (event) => {
        const dot = event.target.closest("a");
        if (!dot) return;
        words.textContent = dot.getAttribute("aria-label");
        if (name === "focusin") for (const other of dots) other.setAttribute("tabindex", other === dot ? "0" : "-1");
      });
    }
  }
}

/** Save the drawing for wide windows, which has room for its labels. */
function save(figure, format) {
  const svg = figure.querySelector(".only-wide [data-dots]");
  const words = (name) => figure.querySelector(name).textContent.trim();
  const {front} = figure.dataset;
  const note = [words("[data-note]"), words("[data-terms]").replace(/\s+/g, " ")];
  const file = `accuracy-against-epsilon-${front.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  savePicture(svg, {title: `${front}: ${words("[data-title]")}`, note}, file, format);
}

/** Index of the dot that a key moves to; null for other keys. */
function target(key, dots, from) {
  if (from < 0) return null;
  if (key === "Home") return 0;
  if (key === "End") return dots.length - 1;
  const step = STEPS[key];
  return step === undefined ? null : Math.min(Math.max(from + step, 0), dots.length - 1);
}
