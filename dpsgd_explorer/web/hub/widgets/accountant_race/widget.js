/** Accountant race: ε by step for every accountant, played or read at a step. */

import {conclusion, heightOf, marks, runners} from "../../../../../static/js/charts/race.js";
import {integer, roundUp} from "../../../../../static/js/lib/format.js";
import {player} from "../../../../../static/js/lib/player.js";
import {Chart, showTable} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const NARROW = 400; // px
const LARGE = 100; // larger values of ε are printed without decimals

/** Pure: ε as text, rounded up. */
export const printed = (epsilon) => (epsilon < LARGE ? roundUp(epsilon) : integer(Number(roundUp(epsilon, 0))));

export function mount(element, data) {
  const speak = speaker(element);
  const door = part(element, "door");
  let course = data.courses[0];
  let guess = null;
  let shown = 0;
  const chart = (name, label) => new Chart(part(element, name), {height: (width) => (width < NARROW ? 220 : 300), label, draw: () => draw(shown)});
  const all = chart("lines", "ε over steps, one line per accountant, both axes logarithmic");
  const close = chart("close", "Close-up of the accountants near the exact ε, on linear axes");

  function draw(index) {
    shown = index;
    const {steps, curves, top} = course;
    const view = {steps, reached: index, guess: course === data.courses[0] ? guess : null};
    const near = curves.filter(({accountant}) => data.close.includes(accountant));
    if (all.width) all.show(marks(all, {...view, runners: runners(curves, data.looks)}));
    if (close.width) close.show(marks(close, {...view, runners: runners(near, data.looks), top}));
    if (!all.width && !close.width) return;
    const words = conclusion(steps, curves, index, {write: printed});
    write(element, "title", words);
    speak(words);
    const rows = curves.map(({label, status, epsilon}) => [label, status, printed(epsilon[index])]);
    showTable(part(element, "ranking"), {caption: `After ${integer(steps[index])} of ${integer(steps.at(-1))} steps`, heads: ["Accountant", "Answer", "ε"], rows, words: [0, 1]});
  }
  const play = player(element, {words: (index) => integer(course.steps[index]), show: draw});
  const choose = (chosen) => {
    course = chosen;
    door.search = `?${course.query}`;
    write(element, "sub", `ε at δ = ${data.delta} as each accountant counts ${course.held}; add or remove one record, Poisson sampling`);
    play.reset(course.steps.length - 1);
  };
  for (const [i, input] of element.querySelectorAll("[data-course]").entries()) {
    input.addEventListener("change", () => choose(data.courses[i]));
  }
  element.addEventListener("guessed", ({detail: [bound]}) => {
    guess = bound.value;
    play.draw();
  });
  choose(course);
}
