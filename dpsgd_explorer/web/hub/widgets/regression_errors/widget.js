/** Errors of private linear regression: all methods against ε, with the values at one budget. */

import {area, Chart, diamond, disc, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

/** Pure: methods, smallest median first. */
export function ranked({methods}, index) {
  return [...methods].sort((first, second) => (first.medians[index] ?? Infinity) - (second.medians[index] ?? Infinity));
}

/** Pure: heading. */
export function conclusion(data, index) {
  const medians = ranked(data, index).map(({name, texts}) => `${name} (${texts[index]})`);
  return `Median errors at ε = ${data.epsilons[index]}: ${medians.join(", ")}`;
}

/** Pure: methods that are worse than always predicting the mean, in half or in one of ten releases. */
export function sentence(data, index) {
  const isWorse = (value) => value === null || value > data.mean;
  const worse = ranked(data, index).filter(({medians}) => isWorse(medians[index]));
  const risky = ranked(data, index).filter(({medians, highs}) => !isWorse(medians[index]) && isWorse(highs[index]));
  const rest = `Always answering the mean has ${data.baselines.mean}, and least squares without privacy ${data.baselines.least}.`;
  const names = (methods) => methods.map(({name}) => name).join(" and ");
  return [
    rest,
    worse.length ? `No better than the mean here: ${names(worse)}.` : "All are better than the mean here.",
    ...(risky.length ? [`Better in half of the releases, but worse in more than one of ten: ${names(risky)}.`] : []),
  ].join(" ");
}

export function mount(element, data) {
  const slider = part(element, "epsilon");
  const speak = speaker(element);
  const redraw = oncePerFrame(() => draw());
  let guesses = [];
  const chart = new Chart(part(element, "chart"), {height: 240, label: "Median error of each method against epsilon, with the band of eight releases in ten, and the error of always answering the mean", draw: redraw});

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
  const [left, right, top, bottom] = [38, width - 14, 26, height - 44];
  const x = scale([0, axes.epsilon], [left, right]);
  const y = scale(axes.error, [bottom, top]);
  const cursorX = x(epsilons[index]);
  const along = (values) => epsilons.flatMap((epsilon, i) => (values[i] === null ? [] : [[x(epsilon), y(values[i])]]));
  return [
    ...methods.map(({lows, highs, wash, colour, dash}) =>
      wash ? area([...along(highs), ...along(lows).reverse()], `band ${wash}`) : line(along(lows), `thin s-${colour}${dash}`),
    ),
    ...axes.ticks.flatMap(([value, words]) => [rule([left, y(value)], [right, y(value)]), text([left - 6, y(value) + 4], words, "", "end")]),
    text([0, 12], `${axes.name}, (100,000 $)²`),
    ...data.epsilonTicks.map(([value, words]) => text([x(value), height - 24], words, "", "middle")),
    text([right, height - 6], "ε spent", "", "end"),
    ...axes.baselines.flatMap((level) => baseline(level, [left, right], y)),
    rule([cursorX, bottom], [cursorX, top], "line thin s-ink dotted"),
    ...methods.map(({medians, colour, dash}) => line(along(medians), `s-${colour}${dash}`)),
    ...methods.flatMap(({medians, lows, highs, colour}) => [
      rule([cursorX, y(lows[index])], [cursorX, y(highs[index])], `line s-${colour}`),
      ...(medians[index] === null ? [] : [disc([cursorX, y(medians[index])], 5, `f-${colour}`)]),
    ]),
    ...guesses.map((guess) => diamond([x(guess.at.x), y(guess.value)], 7, "guess-mark")),
    ...key(data, index, guesses, [right - data.key.width, y(data.mean)]),
  ];
}

/** Names of the lines with their medians at the chosen ε, in the corner that no line crosses. */
function key({methods, key: {sample, gap}}, index, guesses, [left, top]) {
  const rows = methods.flatMap(({label, texts, colour, dash}, i) => {
    const height = top + gap * (i + 1);
    return [
      line([[left, height], [left + sample, height]], `s-${colour}${dash}`),
      text([left + sample + 6, height + 4], `${label}: ${texts[index]}`, `${colour} halo`),
    ];
  });
  if (!guesses.length) return rows;
  const height = top + gap * (methods.length + 1);
  const words = `you: ${guesses.map((guess) => guess.words).join(" and ")}`;
  return [...rows, diamond([left + sample / 2, height], 6, "guess-mark"), text([left + sample + 6, height + 4], words, "ink halo")];
}

/** Line of an error that does not depend on ε, with its label away from the methods' lines. */
function baseline({error, words, colour, is_at_end: isAbove}, [left, right], y) {
  return [
    rule([left, y(error)], [right, y(error)], `line thin s-${colour} dashed`),
    text([right, y(error) + (isAbove ? -6 : 15)], words, `${colour} halo`, "end"),
  ];
}
