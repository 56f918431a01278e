/**
 * Text steps next to a sticky picture. The widget of the picture follows the step in view.
 * On narrow pages the picture is above the text. Steps then have no box, and the widget keeps its state.
 */

const LINE = "-45% 0px -54% 0px"; // the current step crosses this line of the window

/** @param {HTMLElement} scrolly */
function start(scrolly) {
  const widget = scrolly.querySelector("[data-widget]");
  const steps = [...scrolly.querySelectorAll(".text-step")];
  const show = (step) => {
    for (const other of steps) other.classList.toggle("now", other === step);
    const {scene} = step.dataset;
    if (!scene) return;
    widget.dataset.scene = scene; // for a script that loads later
    widget.dispatchEvent(new CustomEvent("scene", {detail: JSON.parse(scene)}));
  };
  const observer = new IntersectionObserver((entries) => {
    const current = entries.findLast(({isIntersecting}) => isIntersecting);
    if (current) show(current.target);
  }, {rootMargin: LINE});
  for (const step of steps) observer.observe(step);
}

if (globalThis.document) document.querySelectorAll(".scrolly").forEach(start);
