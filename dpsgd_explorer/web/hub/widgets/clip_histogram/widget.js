/**
 * Histogram of a recorded run's gradient norms: drag C to see the share of clipped gradients, the bias of their mean,
 * and the noise.
 */

import {grip} from "../../../../../static/js/widgets/common/drag.js";
import {decimals, percent, significant} from "../../../../../static/js/lib/format.js";
import {Chart, box, clamp, diamond, disc, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const HEIGHT = 316;
const [LEFT, RIGHT] = [44, 8];
const PANELS = {lengths: [126, 28], angles: [200, 152], ratios: [HEIGHT - 44, 228]}; // px, bottom and top of each panel
const TICK_MS = 90; // between two values of C that follow by themselves
const DECADE = 6; // recorded values of C per power of ten

/** Pure: index of the recorded C nearest to a value, on a log scale. */
export function nearest(bounds, value) {
  const distances = bounds.map((bound) => Math.abs(Math.log(bound / value)));
  return distances.indexOf(Math.min(...distances));
}

/**
 * Pure: effect of one C on the gradients of a step. A bin includes its upper edge, so a norm equal to C is not
 * clipped.
 */
export function outcome({bounds, edges, noise}, step, index) {
  const cut = step.counts.slice(edges.indexOf(bounds[index])).reduce((sum, count) => sum + count, 0);
  return {
    bound: bounds[index], cut, count: step.batch_size, share: cut / step.batch_size, degrees: step.angles[index],
    mean: step.lengths[index], noise: noise[index], ratio: noise[index] / step.lengths[index],
  };
}

/** Pure: heading. */
export function conclusion({bound, share, degrees}, step) {
  const turn = degrees < 0.5 ? "keeps its direction" : `turns by ${decimals(degrees, 0)}°`;
  return `At C = ${significant(bound, 2)}, ${percent(share, 0)} of the gradients of step ${step} are clipped, and their mean ${turn}`;
}

/** Pure: two sentences next to the chart. */
export function sentences({cut, count, degrees, ratio}, parameters) {
  const which = cut === 0 ? "None is cut: no bias." : cut === count ? "All are cut: each record pulls equally hard." : `${cut} of ${count} are cut; ${count - cut === 1 ? "1 stays as it is" : `${count - cut} stay as they are`}.`;
  const uphill = degrees > 90 ? " Beyond 90° the clipped mean leads uphill for this batch." : "";
  return [which + uphill, `The noise, in ${parameters} directions together, is ${significant(ratio, 2)} times as long as the clipped mean.`];
}

export function mount(element, data) {
  let [stepIndex, index, guess] = [data.first, data.own, null];
  const speak = speaker(element);
  const chart = new Chart(part(element, "chart"), {
    height: HEIGHT, role: "group", label: "Lengths of gradients as bars; below, over C, the angle of the clipped mean and the noise", draw: () => draw(),
  });
  const put = (to) => {
    index = clamp(to, 0, data.bounds.length - 1);
    redraw();
  };
  const handle = grip(chart, {
    label: "Clipping bound C: arrow keys move it", control: "bound", range: [data.bounds[0], data.bounds.at(-1)], move: ([c]) => put(nearest(data.bounds, c)),
    step: ([dx, dy], big) => put(index + (dx + dy) * (big ? DECADE : 1)),
  });
  for (const choice of element.querySelectorAll("[data-step]")) {
    choice.addEventListener("change", () => {
      stepIndex = Number(choice.value);
      redraw();
    });
  }
  element.addEventListener("guessed", ({detail: [, turned]}) => {
    guess = turned.value;
    redraw();
  });

  function draw() {
    if (!chart.width) return;
    const step = data.steps[stepIndex];
    const now = outcome(data, step, index);
    const title = conclusion(now, step.step);
    const [cut, drowned] = sentences(now, data.parameters);
    write(element, "title", title, [[significant(now.bound, 2), "ink"], [percent(now.share, 0), "twin"], [`${decimals(now.degrees, 0)}°`, "good"]]);
    write(element, "cut", cut);
    write(element, "drowned", drowned);
    speak(`${title}. ${drowned} Epsilon ${data.epsilon}.`);
    const longest = Math.max(now.mean, now.noise);
    for (const name of ["mean", "noise"]) {
      write(element, name, significant(now[name], 2));
      part(element, `${name}-bar`).setAttribute("width", String((100 * now[name]) / longest));
    }
    chart.show(marks(chart, data, step, now, stepIndex === data.first ? guess : null));
    const words = `C = ${significant(now.bound, 2)}`;
    handle.at([chart.x(now.bound), PANELS.lengths[1]], now.bound, words);
  }
  const redraw = oncePerFrame(draw);
  const last = data.bounds.length - 1;
  playOnce(element, Array.from({length: last - data.own + 1}, (_, i) => () => put(last - i)), TICK_MS);
}

/**
 * Three panels over one axis of norms (bars, angle, noise relative to the mean), with C as a line through all of
 * them.
 */
function marks(chart, data, step, now, guess) {
  const right = chart.width - RIGHT;
  const shares = step.counts.map((count) => (100 * count) / step.batch_size);
  const top = data.parts.find((value) => value >= Math.max(...shares));
  const {x, y} = chart.frame([data.edges[0], data.edges.at(-1)], [0, top], [LEFT, PANELS.lengths[1], right, PANELS.lengths[0]], {logX: true});
  const angle = scale([0, data.widest], PANELS.angles);
  const ratio = scale(data.ratios, PANELS.ratios, {log: true});
  const over = (values, to) => values.map((value, i) => [x(data.bounds[i]), to(value)]);
  const middle = x(now.bound);
  const powers = [-4, -3, -2, -1, 0, 1, 2].filter((power) => right > 500 || power % 2 === 0);
  return [
    ...[[0, "0"], [top, `${top} %`]].flatMap(([value, words]) => tick(right, y(value), words)),
    ...[[0, "0°"], [90, "90°"]].flatMap(([value, words]) => tick(right, angle(value), words)),
    ...[1, 10, 100].flatMap((value) => tick(right, ratio(value), value)),
    ...shares.map((share, i) => bar(x, y, data.edges, i, share, data.edges[i] >= now.bound ? "f-twin" : "f-good")),
    line([[middle, PANELS.lengths[1]], [middle, PANELS.ratios[0]]], "thin s-ink"),
    line(over(step.angles, angle), "s-good"), disc([middle, angle(now.degrees)], 5, "f-good"),
    line(over(step.lengths.map((length, i) => data.noise[i] / length), ratio), "s-private"), disc([middle, ratio(now.ratio)], 5, "f-private"),
    text([0, 11], "gradients, by their length"), text([LEFT, PANELS.angles[1] - 9], "angle of the clipped to the true mean", "halo"),
    text([LEFT, PANELS.ratios[1] - 9], "noise ÷ clipped mean, log scale", "halo"),
    ...(guess === null ? [] : [diamond([x(data.bounds[data.own]), angle(guess)], 7, "guess-mark"), text([x(data.bounds[data.own]) - 12, angle(guess) + 4], `you: ${guess}°`, "ink halo", "end")]),
    ...powers.map((power) => text([x(10 ** power), HEIGHT - 24], power < -3 ? `1e${power}` : String(10 ** power), "", "middle")),
    rule([LEFT, PANELS.ratios[0]], [right, PANELS.ratios[0]], "axis"),
    text([right, HEIGHT - 6], "length, and C; log scale", "", "end"),
    text([middle - 10, PANELS.lengths[1] + 36], `${now.count - now.cut} kept`, "good halo big", "end"), ...(middle > right - 90 ? [] : [text([middle + 10, PANELS.lengths[1] + 36], `${now.cut} cut`, "twin halo big")]),
    text([middle + (middle > right - 90 ? -16 : 16), PANELS.lengths[1] + 4], `C = ${significant(now.bound, 2)}`, "ink halo", middle > right - 90 ? "end" : "start"),
  ];
}

const tick = (right, height, words) => [rule([LEFT, height], [right, height]), text([LEFT - 8, height + 4], words, "", "end")];

function bar(x, y, edges, i, share, css) {
  const [start, end] = [x(edges[i]), x(edges[i + 1])];
  return box([start + 0.5, y(share)], end - start - 1, y(0) - y(share), css);
}
