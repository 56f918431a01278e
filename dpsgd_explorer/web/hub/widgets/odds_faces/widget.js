/** Odds as a hundred people: largest number of an attacker's statements that are correct at each ε. */

import {Chart, circles, diamond, disc, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const COLUMNS = 10;
const NARROW = 420; // px
const WHO = "For an attacker who knows all the others and sees everything that is released (δ = 0). A run’s own limit can be far lower";

/** Pure: "given", "gained" or "none" for each person, from left to right and top to bottom. */
export function kinds(before, right) {
  return Array.from({length: 100}, (_, i) => (i < before ? "given" : i < right ? "gained" : "none"));
}

/** Pure: heading. */
export function conclusion(named, epsilon, before, {right}) {
  return `At ε = ${epsilon}, ${named} allows at most ${right} right guesses of 100; without the release, ${before} ${before === 1 ? "is" : "are"} right`;
}

/** Pure: the heading's numbers as natural frequencies. */
export function frequencies(factor, before, {right, percent}) {
  const start = `An attacker says “took part” of 100 people, one by one. Before the release ${before} of these statements ${before === 1 ? "is" : "are"} right, so the odds are ${before} to ${100 - before}.`;
  if (right === before) return `${start} They stay so: the release says nothing about anybody.`;
  return `${start} The odds grow by a factor of at most ${factor}: ε alone allows ${percent} %, or ${right} people, rounded up.`;
}

/** Pure: predictions with their positions on the slider; predictions for other values of ε are left out. */
export function placed(guesses, epsilons) {
  return guesses
    .filter(({at, value}) => value !== null && at && epsilons.includes(at.x))
    .map(({at, value, words}) => ({index: epsilons.indexOf(at.x), value, words}));
}

export function mount(element, data) {
  const slider = part(element, "epsilon");
  const speak = speaker(element);
  const state = {prior: data.first.prior, guesses: []};
  const redraw = oncePerFrame(() => draw());
  const charts = {
    faces: new Chart(part(element, "faces"), {height: (width) => (width < NARROW ? 220 : 300), label: "A hundred people: those about whom the attacker is right are filled", draw: redraw}),
    curve: new Chart(part(element, "curve"), {height: (width) => (width < NARROW ? 220 : 300), label: "The limit of ε alone in percent at each epsilon", draw: redraw}),
  };
  function draw() {
    if (!charts.faces.width && !charts.curve.width) return;
    const index = Number(slider.value);
    const {before, limits} = data.priors[state.prior];
    charts.faces.show(faces(charts.faces, kinds(before, limits[index].right)));
    charts.curve.show(curve(charts.curve, data, limits, index, before === 50 ? state.guesses : []));
    const words = [conclusion(data.name, data.epsilons[index], before, limits[index]), frequencies(data.factors[index], before, limits[index])];
    write(element, "title", words[0], [[String(data.epsilons[index]), "private"], [`${limits[index].right}`, "attack"], [`, ${before} `, "twin"]]);
    write(element, "sub", WHO);
    write(element, "fact", words[1]);
    write(element, "epsilon-words", data.epsilons[index]);
    slider.setAttribute("aria-valuetext", `${data.epsilons[index]}; at most ${limits[index].right} of 100 are right`);
    speak(words.join(". "));
  }
  slider.addEventListener("input", redraw);
  for (const radio of element.querySelectorAll("[data-prior]")) {
    radio.addEventListener("change", () => {
      state.prior = Number(radio.value);
      redraw();
    });
  }
  element.addEventListener("guessed", ({detail}) => {
    state.guesses = placed(detail, data.epsilons);
    redraw();
  });
}

/** Ten rows of ten people; one path per kind. */
function faces({width, height}, kindOf) {
  const gap = height / COLUMNS;
  const across = Math.min(gap * 1.35, width / COLUMNS);
  const left = width / 2 - 4.5 * across;
  const size = 0.2 * gap; // radius of a head
  const person = ([x, y]) => `M${x - size} ${y - 0.9 * size}a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0` +
    `M${x - 1.7 * size} ${y + 2.1 * size}c0 ${-2.3 * size} ${3.4 * size} ${-2.3 * size} ${3.4 * size} 0z`;
  const at = (i) => [left + (i % COLUMNS) * across, gap * (Math.floor(i / COLUMNS) + 0.5)];
  return ["given", "gained", "none"].map((kind) => ({
    name: "path", attributes: {class: `face ${kind}`, d: kindOf.flatMap((other, i) => (other === kind ? [person(at(i))] : [])).join("")},
  }));
}

function curve(chart, data, limits, index, guesses) {
  const {width, height} = chart;
  const [left, right, bottom] = [46, width - 14, height - 30];
  const x = scale([0, data.epsilons.length - 1], [left, right]);
  const [low, middle] = limits[0].percent < 50 ? [0, 50] : [50, 75]; // a coin is right 50 % of the time
  const y = scale([low, 100], [bottom, 14]);
  const points = limits.map(({percent}, i) => [x(i), y(Number(percent))]);
  const every = width > 340 ? 1 : 2;
  const isLow = Number(limits[index].percent) < 80;
  const isLeft = index > 8 || (isLow && index > 2); // the line rises to the right
  return [
    ...[low, middle, 100].flatMap((value) => [rule([left, y(value)], [right, y(value)]), text([left - 6, y(value) + 4], `${value} %`, "", "end")]),
    ...data.epsilons.flatMap((epsilon, i) => (i % every ? [] : [text([x(i), height - 8], epsilon, "", "middle")])),
    text([width, height - 38], "ε, in uneven steps", "halo", "end"),
    line(points, "s-attack"), circles(points, 3, "f-attack"),
    line([[x(index), bottom], points[index]], "thin s-ink dotted"), disc(points[index], 6.5, "f-ink"),
    text([points[index][0] + (isLeft ? -12 : 0), points[index][1] + (isLow ? -13 : 26)], `${limits[index].percent} %`, "ink halo", isLeft ? "end" : "middle"),
    ...guesses.flatMap((guess) => [
      diamond([x(guess.index), y(guess.value)], 7, "guess-mark"),
      text([x(guess.index) + (guess.index > 8 ? -12 : 12), y(guess.value) + 18], `you: ${guess.words}`, "ink halo", guess.index > 8 ? "end" : "start"),
    ]),
  ];
}
