/** The accountant race: ε along one run as every accountant counts it, played or read at a step. */

import {integer, roundUp} from "../../../../../static/js/lib/format.js";
import {player} from "../../../../../static/js/lib/player.js";
import {Chart, diamond, disc, fanned, line, rule, showTable, text} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const LARGE = 100; // an ε beyond it is printed whole
const NARROW = 500; // px

/** Pure: an ε as it is printed, rounded up. */
export const printed = (epsilon) => (epsilon < LARGE ? roundUp(epsilon) : integer(Number(roundUp(epsilon, 0))));

/** Pure: the powers of ten around all values, with room for words below. */
export function decades(racers) {
  const logs = racers.flatMap(({epsilon}) => epsilon).map(Math.log10);
  return [Math.floor(Math.min(...logs) - 0.5), Math.ceil(Math.max(...logs))];
}

/** Pure: what is said at a place of the run, as a sentence. */
export function conclusion({steps, racers}, place) {
  const said = (status) => racers.filter((racer) => racer.status === status).map(({epsilon}) => epsilon[place]);
  const [[truth], bounds, [guess]] = ["exact", "bound", "approximation"].map(said);
  const by = guess < truth ? ", below the truth" : "";
  const count = steps[place] === 1 ? "1 step" : `${integer(steps[place])} steps`;
  return `After ${count}: exactly ε = ${printed(truth)}, by bounds up to ${printed(Math.max(...bounds))}, by an approximation ${printed(guess)}${by}`;
}

export function mount(element, data) {
  const speak = speaker(element);
  const door = part(element, "door");
  let course = data.courses[0];
  let guess = null;
  let shown = 0;
  const chart = new Chart(part(element, "lines"), {
    height: 380, label: "ε over steps, one line per accountant, both axes logarithmic", draw: () => draw(shown),
  });

  function draw(place) {
    shown = place;
    if (!chart.width) return;
    chart.show(lines(chart, course, place, course === data.courses[0] ? guess : null));
    const words = conclusion(course, place);
    write(element, "title", words);
    speak(words);
    const rows = course.racers.map(({name, status, epsilon}) => [name, status, printed(epsilon[place])]);
    showTable(part(element, "ranking"), {caption: `After ${integer(course.steps[place])} of ${integer(course.steps.at(-1))} steps`, heads: ["Accountant", "Answer", "ε"], rows, words: [0, 1]});
  }
  const play = player(element, {words: (place) => integer(course.steps[place]), show: draw});
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

/** The lines up to a place, their names beside the tips, and a guess at the end. */
function lines(chart, {steps, racers}, place, guess) {
  const [low, high] = decades(racers);
  const isNarrow = chart.width < NARROW;
  const [left, top, right, bottom] = [58, 26, chart.width - 96, chart.height - 44];
  const x = chart.frame([1, steps.at(-1)], [low, high], [left, top, right, bottom], {logX: true}).x;
  const y = (epsilon) => chart.y(Math.log10(epsilon));
  const marks = [text([0, 12], "ε, log scale")];
  for (let power = low; power <= high; power += isNarrow ? 2 : 1) {
    marks.push(rule([left, chart.y(power)], [right, chart.y(power)]), text([left - 8, chart.y(power) + 4.5], power < 0 ? (10 ** power).toFixed(-power) : integer(10 ** power), "", "end"));
  }
  marks.push(rule([left, bottom], [right, bottom], "axis"));
  for (let step = 1; step <= steps.at(-1); step *= isNarrow ? 100 : 10) {
    marks.push(rule([x(step), bottom], [x(step), bottom + 5], "axis"), text([x(step), bottom + 19], integer(step), "", "middle"));
  }
  marks.push(text([right, bottom + 37], "steps, log scale", "", "end"));
  const tips = racers.map(({epsilon}) => [x(steps[place]), y(epsilon[place])]);
  const heights = fanned(tips.map(([, height]) => height));
  const order = [...racers.keys()].sort((i, j) => (racers[i].status === "exact") - (racers[j].status === "exact"));
  for (const i of order) {
    const {status, epsilon, short, colour} = racers[i];
    const dash = status === "approximation" ? " dashed" : "";
    marks.push(
      line(epsilon.slice(0, place + 1).map((value, at) => [x(steps[at]), y(value)]), `s-${colour}${status === "exact" ? " fat" : " thin"}${dash}`),
      disc(tips[i], 3, `f-${colour}`), text([tips[i][0] + 8, heights[i] + 4.5], short, `${colour} halo`),
    );
  }
  if (guess === null) return marks;
  const at = [right, y(guess)];
  return [...marks, diamond(at, 7, "guess-mark"), text([right - 13, at[1] - 10], `you: ${guess}`, "ink halo", "end")];
}
