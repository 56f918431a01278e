/**
 * Three-way twin: recorded curves of three kinds of training, and the accuracy lost to clipping and noise for the
 * selected learning rates.
 */

import {Chart, area, box, clipped, disc, fanned, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const NARROW = 500; // px
const LABEL = 124; // px, of two accuracies and an arrow
const ROW = 64; // px, height of each bar of the split

/** Pure: final accuracies of all kinds as a sentence. */
export function endings(kinds, {ends, rates}) {
  return `At the end: ${kinds.map(({name, words}) => `${words} ${ends[name]} % (rate ${rates[name]})`).join("; ")}.`;
}

export function mount(element, data) {
  const speak = speaker(element);
  let choice = data.choices[0];
  const curves = new Chart(part(element, "curves"), {height: (width) => (width < NARROW ? 250 : 340), label: "Test accuracy over steps of three kinds of training, with the range of the seeds", draw: () => draw()});
  const split = new Chart(part(element, "split"), {height: 2 * ROW, label: "Points of accuracy that clipping takes, and that noise takes, with the range of the seeds", draw: () => draw()});

  function draw() {
    if (curves.width) curves.show(accuracies(curves, data, choice));
    if (split.width) split.show(waterfall(split, data.kinds, choice));
    write(element, "title", choice.conclusion);
    write(element, "sub", `Test accuracy over steps; learning rates: ${choice.name}; ${data.settings}`);
    write(element, "ends", endings(data.kinds, choice));
    speak(choice.conclusion);
  }
  for (const [i, input] of element.querySelectorAll("[data-rate]").entries()) {
    input.addEventListener("change", () => {
      choice = data.choices[i];
      draw();
    });
  }
}

/** Mean curves on bands from minimum to maximum over seeds; values below the axis are cut off. */
function accuracies(chart, {steps, kinds, curves}, {rates, floor}) {
  const isNarrow = chart.width < NARROW;
  const [left, top, right, bottom] = [34, 26, chart.width - (isNarrow ? 10 : 170), chart.height - 44];
  const {x, y} = chart.frame([0, steps.at(-1)], [floor, 100], [left, top, right, bottom]);
  const marks = [text([0, 12], "test accuracy, %")];
  for (let percent = floor; percent <= 100; percent += floor < 90 ? 5 : 1) {
    marks.push(rule([left, y(percent)], [right, y(percent)]), text([left - 8, y(percent) + 4.5], percent, "", "end"));
  }
  marks.push(rule([left, bottom], [right, bottom], "axis"), text([right, bottom + 37], "steps", "", "end"));
  for (let step = 0; step <= steps.at(-1); step += 100) {
    marks.push(rule([x(step), bottom], [x(step), bottom + 5], "axis"), text([x(step), bottom + 19], step, "", "middle"));
  }
  const of = kinds.map(({name}) => curves[name][rates[name]]);
  const points = (values) => values.map((value, i) => [x(steps[i]), y(value)]);
  marks.push(...clipped([left, top - 4, right + 6, bottom], kinds.flatMap(({colour}, i) => [
    area([...points(of[i].low), ...points(of[i].high).reverse()], `f-${colour} light`),
    line(points(of[i].mean), `s-${colour}${colour === "twin" ? " dashed" : ""}`),
  ])));
  const ends = of.map(({mean}) => y(mean.at(-1)));
  const heights = isNarrow ? ends.map((_, i) => bottom - 58 + 18 * i) : fanned(ends);
  const [at, anchor] = isNarrow ? [right - 8, "end"] : [right + 10, "start"];
  return [...marks, ...kinds.map(({words, colour}, i) => text([at, heights[i] + 4.5], words, `${colour} halo`, anchor))];
}

/** The loss as one fall: from the ordinary accuracy by clipping to the middle, and by noise to the private one. */
function waterfall(chart, kinds, {parts, ends}) {
  const stops = kinds.map(({name}) => Number(ends[name]));
  const seeds = parts.map(({each}, i) => each.map((points) => stops[i] - points));
  const values = [...stops, ...seeds.flat()];
  const room = 0.1 * (Math.max(...values) - Math.min(...values)) || 1;
  const {x} = chart.frame([Math.min(...values) - room, Math.max(...values) + room], [0, 1], [2, 0, chart.width - 6, chart.height]);
  return parts.flatMap(({name, colour, words}, i) => {
    const top = i * ROW;
    const [from, to] = [x(stops[i]), x(stops[i + 1])];
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    const [at, side] = high + 12 + LABEL <= chart.width ? [high + 12, "start"] : low - 12 >= LABEL ? [low - 12, "end"] : [(low + high) / 2, "middle"];
    return [
      text([2, top + 14], `${name}: ${words}`, `${colour} halo`),
      ...(i ? [] : [rule([from, top + 20], [from, top + 26], "axis")]),
      box([Math.min(from, to), top + 26], Math.abs(to - from), 18, `f-${colour}`),
      rule([to, top + 22], [to, top + ROW + (i ? -14 : 26)], "axis"),
      ...seeds[i].flatMap((value) => [disc([x(value), top + 35], 5, "f-surface"), disc([x(value), top + 35], 3.5, "f-ink")]),
      text([at, top + 40], `${ends[kinds[i].name]} → ${ends[kinds[i + 1].name]} %`, side === "middle" ? "f-surface" : "ink halo", side),
    ];
  });
}
