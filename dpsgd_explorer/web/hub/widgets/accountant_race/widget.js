/** Accountant race: ε by step for every accountant, played or read at a step. */

import {conclusion, heightOf, marks, runners} from "../../../../../static/js/charts/race.js";
import {integer, roundUp} from "../../../../../static/js/lib/format.js";
import {player} from "../../../../../static/js/lib/player.js";
import {Chart, showTable} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const NARROW = 560; // px
const LARGE = 100; // larger values of ε are printed without decimals

/** Pure: ε as text, rounded up. */
export const printed = (epsilon) => (epsilon < LARGE ? roundUp(epsilon) : integer(Number(roundUp(epsilon, 0))));

export function mount(element, data) {
  const speak = speaker(element);
  const door = part(element, "door");
  let course = data.courses[0];
  let guess = null;
  let shown = 0;
  const chart = new Chart(part(element, "lines"), {
    height: (width) => (width < NARROW ? 272 : 340), label: "ε over steps, one line per accountant, both axes logarithmic", draw: () => draw(shown),
  });

  function draw(index) {
    shown = index;
    if (!chart.width) return;
    const {steps, curves} = course;
    chart.show(marks(chart, {steps, runners: runners(curves, data.looks), reached: index, guess: course === data.courses[0] ? guess : null}));
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
