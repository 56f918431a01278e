/** The fronts: arrow keys go from dot to dot along ε, Enter follows the link of one. */

const STEPS = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};

for (const figure of document.querySelectorAll("[data-pareto-page] figure")) wire(figure);

function wire(figure) {
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
        if (name === "focusin") for (const one of dots) one.setAttribute("tabindex", one === dot ? "0" : "-1");
      });
    }
  }
}

/** Which dot a key leads to; null if it leads to none. */
function target(key, dots, from) {
  if (from < 0) return null;
  if (key === "Home") return 0;
  if (key === "End") return dots.length - 1;
  const step = STEPS[key];
  return step === undefined ? null : Math.min(Math.max(from + step, 0), dots.length - 1);
}
