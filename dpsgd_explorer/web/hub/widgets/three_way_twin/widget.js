/**
 * Three-way twin: recorded curves of three kinds of training, and the accuracy lost to clipping and noise for the
 * selected learning rates.
 */

import {Chart, area, box, clipped, disc, fanned, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const NARROW = 500; // px
const ROW = 64; // px, height of each bar of the split

/** Pure: ends of the axis of the split, including zero and all seeds, with a margin. */
export function reach(parts) {
  const values = parts.flatMap(({each}) => each);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const room = 0.08 * (high - low);
  return [low - (low < 0 ? room : 0), high + room];
}

/** Pure: final accuracies of all kinds as a sentence. */
export function endings(kinds, {ends, rates}) {
  return `At the end: ${kinds.map(({name, words}) => `${words} ${ends[name]} % (rate ${rates[name]})`).join("; ")}.`;
}

export function mount(element, data) {
  const speak = speaker(element);
  let choice = data.choices[0];
  const curves = new Chart(part(element, "curves"), {height: 340, label: "Test accuracy over steps of three kinds of training, with the range of the seeds", draw: () => draw()});
  const split = new Chart(part(element, "split"), {height: 2 * ROW, label: "Points of accuracy that clipping takes, and that noise takes, with the range of the seeds", draw: () => draw()});

  function draw() {
    if (!curves.width || !split.width) return;
    curves.show(accuracies(curves, data, choice));
    split.show(bars(split, choice.parts));
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

/** One bar from zero per part, with its seeds as dots. */
function bars(chart, parts) {
  const {x} = chart.frame(reach(parts), [0, 1], [2, 0, chart.width - 6, chart.height]);
  return parts.flatMap(({name, colour, mean, each, words}, i) => {
    const top = i * ROW;
    return [
      text([2, top + 14], `${name}: ${words}`, `${colour} halo`),
      box([x(Math.min(0, mean)), top + 24], Math.abs(x(mean) - x(0)), 18, `f-${colour}`),
      rule([x(0), top + 20], [x(0), top + 46], "axis"),
      ...each.flatMap((value) => [disc([x(value), top + 33], 5, "f-surface"), disc([x(value), top + 33], 3.5, "f-ink")]),
    ];
  });
}
