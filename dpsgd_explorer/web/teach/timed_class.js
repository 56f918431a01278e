/** Clock of a class, on its plan and on the screens of the projector; arrow keys turn the screens. */

const KEY = "class-began"; // time at which the class began, in ms
const MINUTE = 60000;

/**
 * Returns what the clock says.
 * @param {?number} began Time at which the class began, in ms, or null.
 * @param {number} now Present time, in ms.
 * @param {{from: number, until: number}[]} steps First and last minute of each step.
 * @returns {?{words: string, step: number}} null before the class and an hour after its end.
 */
export function told(began, now, steps) {
  if (began === null) return null;
  const minute = Math.floor((now - began) / MINUTE);
  const end = steps.at(-1).until;
  if (minute < 0 || minute >= end + 60) return null;
  const step = steps.findIndex(({from, until}) => from <= minute && minute < until);
  if (step < 0) return {words: `minute ${minute}: the ${end} minutes are over`, step};
  const left = steps[step].until - minute;
  return {words: `minute ${minute} of ${end}, ${left} ${left === 1 ? "minute" : "minutes"} left in this step`, step};
}

function readBegin() {
  try {
    const stored = Number(localStorage.getItem(KEY) ?? NaN);
    return Number.isFinite(stored) ? stored : null;
  } catch {
    return null; // storage is blocked: the clock lives on one page
  }
}

function keepBegin(began) {
  try {
    localStorage.setItem(KEY, String(began));
  } catch {
    // storage is blocked: the clock lives on one page
  }
}

function run(page) {
  const items = [...page.querySelectorAll("[data-from]")];
  const steps = items.map(({dataset}) => ({from: Number(dataset.from), until: Number(dataset.until)}));
  const clock = page.querySelector("[data-clock]");
  const button = page.querySelector("[data-start]");
  let began = readBegin();
  const show = () => {
    const shown = told(began, Date.now(), steps);
    clock.hidden = shown === null;
    if (shown && clock.textContent !== shown.words) clock.textContent = shown.words;
    items.forEach((item, index) => item.classList.toggle("now-on", index === shown?.step));
    button.textContent = shown ? "Start again" : "Start the clock";
  };
  button.addEventListener("click", () => {
    began = Date.now();
    keepBegin(began);
    show();
  });
  addEventListener("storage", ({key}) => {
    if (key !== KEY) return;
    began = readBegin();
    show();
  });
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, [role], svg, [tabindex]")) return;
    const way = {ArrowLeft: "prev", ArrowRight: "next", PageUp: "prev", PageDown: "next"}[event.key];
    const link = way && page.querySelector(`[rel="${way}"]`);
    if (!link) return;
    event.preventDefault();
    link.click();
  });
  show();
  setInterval(show, 1000);
}

const page = globalThis.document?.querySelector("[data-timed-class]");
if (page) run(page);
