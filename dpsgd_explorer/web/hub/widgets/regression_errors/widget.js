/** Errors of private linear regression: all methods against ε, with the values at one budget. */

import {Chart, diamond, disc, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const NAMED_AT = {adassp: [20, 22], ssp: [2, -14], large_noise: [17, 2], small_noise: [9, -8]}; // label position: number of points divided by the index of its point, px below the line

/** Pure: methods with an error at an ε, smallest median first. */
export function ranked({methods}, index) {
  return methods
    .filter(({texts}) => texts[index] !== "–")
    .sort((first, second) => (first.medians[index] ?? Infinity) - (second.medians[index] ?? Infinity));
}

/** Pure: heading. */
export function conclusion(data, index) {
  const medians = ranked(data, index).map(({name, texts}) => `${name} ${texts[index]}`);
  return `Median errors at ε = ${data.epsilons[index]}: ${medians.join(", ")}`;
}

/** Pure: methods that are worse than always predicting the mean. */
export function sentence(data, index) {
  const worse = ranked(data, index).filter(({medians}) => medians[index] === null || medians[index] > data.mean);
  const rest = `Always answering the mean has ${data.baselines.mean}, and least squares without privacy ${data.baselines.least}.`;
  if (!worse.length) return `${rest} All are better than the mean here.`;
  return `${rest} No better than the mean here: ${worse.map(({name}) => name).join(" and ")}.`;
}

export function mount(element, data) {
  const slider = part(element, "epsilon");
  const speak = speaker(element);
  const redraw = oncePerFrame(() => draw());
  let guesses = [];
  const chart = new Chart(part(element, "chart"), {height: 280, label: "Median error of each method against epsilon, and the error of always answering the mean", draw: redraw});

  function draw() {
    if (!chart.width) return;
    const index = Number(slider.value);
    const words = [conclusion(data, index), sentence(data, index)];
    write(element, "title", words[0]);
    write(element, "sub", data.sub);
    write(element, "fact", words[1]);
    write(element, "epsilon-words", String(data.epsilons[index]));
    slider.setAttribute("aria-valuetext", String(data.epsilons[index]));
    for (const {slug, texts, bands} of data.methods) {
      write(element, slug, texts[index]);
      write(element, `${slug}-band`, bands[index]);
    }
    speak(words.join(". "));
    chart.show(marks(chart, data, index, guesses));
  }
  slider.addEventListener("input", redraw);
  element.addEventListener("guessed", ({detail}) => {
    guesses = detail.filter(({at, value}) => value !== null && at);
    redraw();
  });
}

function marks({width, height}, data, index, guesses) {
  const {epsilons, methods, axes} = data;
  const [left, right, bottom] = [38, width - 14, height - 44];
  const x = scale([0, axes.epsilon], [left, right]);
  const y = scale(axes.error, [bottom, 26]);
  const cursorX = x(epsilons[index]);
  return [
    ...axes.ticks.flatMap(([value, words]) => [rule([left, y(value)], [right, y(value)]), text([left - 6, y(value) + 4], words, "", "end")]),
    text([0, 12], `${axes.name}, (100,000 $)²`),
    ...data.epsilonTicks.map(([value, words]) => text([x(value), height - 24], words, "", "middle")),
    text([right, height - 6], "ε spent", "", "end"),
    ...axes.baselines.flatMap((level) => baseline(level, [left, right], y)),
    rule([cursorX, bottom], [cursorX, 26], "line thin s-ink dotted"),
    ...methods.flatMap(({slug, label, medians, colour, dash}) => {
      const points = epsilons.flatMap((epsilon, i) => (medians[i] === null ? [] : [[x(epsilon), y(medians[i])]]));
      const [share, below] = NAMED_AT[slug];
      const named = points[Math.floor(points.length / share)];
      return [
        line(points, `s-${colour}${dash}`),
        ...(named ? [text([named[0] + 8, named[1] + below], label, `${colour} halo`)] : []),
        ...(medians[index] === null ? [] : [disc([cursorX, y(medians[index])], 5, `f-${colour}`)]),
      ];
    }),
    ...guesses.flatMap((guess) => [
      diamond([x(guess.at.x), y(guess.value)], 7, "guess-mark"), text([x(guess.at.x) + 13, y(guess.value) + 4], `you: ${guess.words}`, "ink halo"),
    ]),
  ];
}

/** Line of an error that does not depend on ε, with its label away from the methods' lines. */
function baseline({error, words, colour, is_at_end: isAbove}, [left, right], y) {
  return [
    rule([left, y(error)], [right, y(error)], `line thin s-${colour} dashed`),
    text([right, y(error) + (isAbove ? -6 : 15)], words, `${colour} halo`, "end"),
  ];
}
