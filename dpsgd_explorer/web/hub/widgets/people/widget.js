/** Person with several records: ε for all of them, by the unit of sampling and clipping. */

import {Chart, diamond, disc, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const [BY_RECORD, BY_PERSON] = [0, 1];
const LINES = [["record", "budget"], ["person", "good"]];
const TICK_MS = 400; // between two numbers of records that follow by themselves
const LEVELS = [0.5, 1, 2, 5, 10, 20, 50];

/** Pure: values for the person; with the person as the unit, the number of records does not matter. */
export const held = ({points}, index, unit) => points[unit === BY_PERSON ? 0 : index];

/** Pure: heading. */
export function conclusion(data, index, unit) {
  const {records} = data.points[index];
  const {epsilon} = held(data, index, unit);
  const person = `a person with ${records === 1 ? "one record" : `${records} records`}`;
  if (unit === BY_PERSON) return `Clipped by person, ε = ${epsilon} covers ${person} as a whole`;
  return `A promise of ε = ${data.target} per record is ε = ${epsilon} for ${person}`;
}

/** Pure: the heading's ε as an attacker's limit. */
export function sentence(data, index, unit) {
  const {limits} = held(data, index, unit);
  const price = unit === BY_PERSON ? " There are fewer units then, and all of a person’s gradients fit into one C." : "";
  return `An attacker who guesses whether this person took part is right at most: ${limits}. A coin: 50 %.${price}`;
}

export function mount(element, data) {
  const slider = part(element, "records");
  const speak = speaker(element);
  const state = {unit: BY_RECORD, guesses: []};
  const redraw = oncePerFrame(() => draw());
  const chart = new Chart(part(element, "chart"), {
    height: 250, label: "Epsilon against a person’s records: it rises where records are clipped, and stays level where persons are", draw: redraw,
  });

  function draw() {
    if (!chart.width) return;
    const index = Number(slider.value);
    const words = [conclusion(data, index, state.unit), sentence(data, index, state.unit)];
    write(element, "title", words[0]);
    write(element, "fact", words[1]);
    write(element, "records-words", String(data.points[index].records));
    slider.setAttribute("aria-valuetext", `${data.points[index].records}; epsilon ${held(data, index, state.unit).epsilon}`);
    speak(words.join(". "));
    chart.show(marks(chart, data.points, index, state));
  }
  slider.addEventListener("input", redraw);
  playOnce(element, Array.from({length: data.first + 1}, (_, i) => () => {
    slider.value = String(i);
    redraw();
  }), TICK_MS);
  for (const radio of element.querySelectorAll("[data-unit]")) {
    radio.addEventListener("change", () => {
      state.unit = Number(radio.value);
      redraw();
    });
  }
  element.addEventListener("guessed", ({detail}) => {
    state.guesses = detail.filter(({at, value}) => value !== null && at);
    redraw();
  });
}

function marks({width, height}, points, index, {unit, guesses}) {
  const [left, right, bottom] = [38, width - 14, height - 44];
  const x = scale([points[0].records, points.at(-1).records], [left + 10, right - 10]);
  const y = scale([LEVELS[0], LEVELS.at(-1)], [bottom, 26], {log: true});
  const level = (point, i) => [x(point.records), y((i === BY_PERSON ? points[0] : point).value)];
  const selected = level(points[index], unit);
  const {epsilon} = unit === BY_PERSON ? points[0] : points[index];
  const isFirst = index === 0; // above its line, which rises from here; all later labels are below
  return [
    ...LEVELS.flatMap((value) => [rule([left, y(value)], [right, y(value)]), text([left - 6, y(value) + 4], String(value), "", "end")]),
    text([0, 12], "ε for all records of the person, log scale"),
    ...points.map(({records}) => text([x(records), height - 24], String(records), "", "middle")),
    text([right, height - 6], "records of one person", "", "end"),
    ...LINES.flatMap(([name, style], i) => [
      line(points.map((point) => level(point, i)), `s-${style}${i === unit ? " fat" : ""}`),
      text([right - 10, i === BY_PERSON ? level(points.at(-1), i)[1] + 20 : level(points.at(-4), i)[1] + 40], `clipped by ${name}`, `${style} halo`, "end"),
    ]),
    disc(selected, 6.5, `f-${LINES[unit][1]}`),
    text([selected[0] + (isFirst ? 10 : -8), selected[1] + (isFirst ? 20 : -10)], epsilon, "ink halo", isFirst ? "start" : "end"),
    ...guesses.flatMap((guess) => [
      diamond([x(guess.at.x), y(guess.value)], 7, "guess-mark"),
      text([x(guess.at.x) + 13, y(guess.value) + 4], `you: ${guess.words}`, "ink halo"),
    ]),
  ];
}
