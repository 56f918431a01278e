/** Person with several records: ε for all of them, by the unit of sampling and clipping. */

import {Chart, box, diamond, disc, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const [BY_RECORD, BY_PERSON] = [0, 1];
const LINES = [["record", "ink"], ["person", "private"]];
const ROW = 5; // pictures in a row
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

  const album = new Chart(part(element, "album"), {
    height: 96, label: "A person and their pictures: framed one by one, or all together", draw: redraw,
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
    if (album.width) album.show(person(data.points[index].records, state.unit));
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

/** A person with pictures; the frames are what is sampled and clipped. */
function person(records, unit) {
  const places = Array.from({length: records}, (_, i) => [62 + 34 * (i % ROW), 12 + 38 * Math.floor(i / ROW)]);
  const frame = `line s-${LINES[unit][1]}`;
  const columns = Math.min(records, ROW);
  return [
    {name: "circle", attributes: {class: "f-faint", cx: 24, cy: 24, r: 11}},
    {name: "path", attributes: {class: "f-faint", d: "M4 74C4 50 10 40 24 40C38 40 44 50 44 74Z"}},
    ...places.flatMap(([x, y]) => [
      box([x, y], 24, 28, unit === BY_PERSON ? "f-sunken" : `f-sunken s-${LINES[unit][1]}`),
      {name: "path", attributes: {class: "f-faint", d: `M${x + 3} ${y + 24}L${x + 9} ${y + 13}L${x + 14} ${y + 19}L${x + 17} ${y + 16}L${x + 21} ${y + 24}Z`}},
    ]),
    ...(unit === BY_PERSON ? [{name: "rect", attributes: {class: frame, x: 54, y: 4, width: 34 * columns + 6, height: records > ROW ? 82 : 44, rx: 6}}] : []),
  ];
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
