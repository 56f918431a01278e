/** Releases of two coefficients, with a ridge that pulls them to zero and without it. */

import {Chart, circles, disc, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

/** Pure: heading. */
export function conclusion({epsilons, ways, names}, way, index) {
  return `${names[way]}: median error ${ways[way][index].error} at ε = ${epsilons[index]}`;
}

/** Pure: what moves the releases, and what the other way costs. */
export function sentence({ways, releases, least}, way, index) {
  const {outside} = ways[way][index];
  const away = outside ? ` ${outside} of ${releases} are outside.` : "";
  if (way === "with") {
    return `The ridge pulls every release along the dotted way to zero, and keeps the noise small.${away} The same noise without a ridge: ${ways.without[index].error}. No noise: ${least}.`;
  }
  return `Nothing pulls, but small eigenvalues divide the noise: releases scatter.${away} The same noise with a ridge: ${ways.with[index].error}. No noise: ${least}.`;
}

export function mount(element, data) {
  const slider = part(element, "epsilon");
  const ridges = [...element.querySelectorAll("[data-ridge]")];
  const speak = speaker(element);
  const redraw = oncePerFrame(() => draw());
  const chart = new Chart(part(element, "chart"), {height: 210, label: "Released coefficients, the solution without privacy, and the way on which the ridge pulls it to zero", draw: redraw});

  function draw() {
    if (!chart.width) return;
    const index = Number(slider.value);
    const way = Object.keys(data.ways)[Number(ridges.find(({checked}) => checked).value)];
    const words = [conclusion(data, way, index), sentence(data, way, index)];
    write(element, "title", words[0]);
    write(element, "sub", `${data.releases} releases; the coefficient of ${data.features[0]} across, of ${data.features[1]} up`);
    write(element, "fact", words[1]);
    write(element, "epsilon-words", String(data.epsilons[index]));
    slider.setAttribute("aria-valuetext", String(data.epsilons[index]));
    speak(words.join(". "));
    chart.show(marks(chart, data, way, index));
  }
  slider.addEventListener("input", redraw);
  for (const ridge of ridges) ridge.addEventListener("change", redraw);
}

function marks({width, height}, data, way, index) {
  const [left, right, bottom] = [38, width - 14, height - 44];
  const [x, y] = [scale(data.x, [left, right]), scale(data.y, [bottom, 26])];
  const at = ([first, second]) => [x(first), y(second)];
  const shown = data.ways[way][index];
  const path = [data.solution, ...data.ways.with.map(({still}) => still).reverse(), [0, 0]].map(at);
  const [solutionX, solutionY] = at(data.solution);
  const [zeroX, zeroY] = at([0, 0]);
  return [
    ...data.yTicks.flatMap(([value, words]) => [rule([left, y(value)], [right, y(value)]), text([left - 6, y(value) + 4], words, "", "end")]),
    ...data.xTicks.map(([value, words]) => text([x(value), height - 24], words, "", "middle")),
    text([0, 12], data.features[1]),
    text([right, height - 6], data.features[0], "", "end"),
    circles(shown.points.map(at), 4, "f-private soft"),
    line(path, "s-ink dotted"),
    disc([zeroX, zeroY], 3, "f-ink"),
    text([zeroX - 8, zeroY + 16], "zero", "ink halo", "end"),
    disc([solutionX, solutionY], 6, "f-twin"),
    text([solutionX, solutionY - 12], "not private", "twin halo", "middle"),
    ...(way === "with" ? [disc(at(shown.still), 5, "f-ink")] : []),
  ];
}
