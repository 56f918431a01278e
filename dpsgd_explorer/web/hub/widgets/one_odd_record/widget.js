/** One odd record: drag one of 24 points, and see the effect on the fitted line and on all gradients. */

import {decimals} from "../../../../../static/js/lib/format.js";
import {invitation, oddRecord} from "../../../../../static/js/widgets/common/odd_record.js";
import {Chart, arrow, circles, clamp, clipped, disc, fanned, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {fit, gradient, length} from "../../../../../static/js/widgets/common/toy_problem.js";
import {glide, playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const NARROW = 420; // px
const [FRAMES, TICK_MS] = [60, 30]; // of the record’s way to its place
const SPANS = [0.5, 1, 2, 4, 8]; // half heights of the gradients' plane; the zoom changes by factors of two
const X_LABEL = 1.2; // x of the lines' ends and labels

/** Pure: lines with and without the odd record, and all gradients at the line without it. */
export function study(records, odd) {
  const others = records.filter((_, i) => i !== odd);
  const without = fit(others);
  const pulls = records.map((record) => gradient(without, record).map((value) => -value));
  const longest = Math.max(...pulls.filter((_, i) => i !== odd).map(length));
  return {without, with: fit(records), pulls, longest, odd: length(pulls[odd])};
}

/** Pure: heading. */
export function conclusion(result) {
  const [before, after] = [result.without[0], result.with[0]].map((slope) => decimals(slope));
  return before === after
    ? `Here it leaves the slope at ${after}`
    : `One record moves the slope from ${before} to ${after}`;
}

/** Pure: the odd record's gradient compared with the other gradients. */
export function comparison(result) {
  const times = result.odd / result.longest;
  if (times < 1) return `Its gradient is ${decimals(result.odd)} long, shorter than the longest of the others, ${decimals(result.longest)}. Here it looks like any other record.`;
  return `Its gradient is ${decimals(result.odd)} long, ${decimals(times, 1)} times the longest of the others. In a step that sums gradients, it has that much more influence.`;
}

/** Pure: line with a given slope through the mean of all points, which every least-squares line contains. */
export function through(records, slope) {
  const [x, y] = [0, 1].map((i) => records.reduce((sum, record) => sum + record[i], 0) / records.length);
  return [slope, y - slope * x];
}

/** Point `gap` pixels before the end of a vertical line. */
function shortened([, from], [x, to], gap) {
  const length = Math.abs(to - from);
  return [x, length <= gap ? from : to - Math.sign(to - from) * gap];
}

export function mount(element, data) {
  const first = data.records[data.odd];
  const records = data.records.map((record) => [...record]);
  const speak = speaker(element);
  const scatter = new Chart(part(element, "scatter"), {
    height: (width) => (width < NARROW ? 290 : 360), role: "group", label: "Points along a rising line, and one record that you can move", draw: () => draw(),
  });
  const plane = new Chart(part(element, "gradients"), {
    height: (width) => (width < NARROW ? 212 : 250), label: "An arrow for each record’s gradient from one point; the arrow of the odd record is dark", draw: () => draw(),
  });
  const move = (to) => {
    records[data.odd] = to;
    redraw();
  };
  const record = oddRecord(scatter, data, {control: "record", place: () => records[data.odd], move});
  part(element, "back").addEventListener("click", () => move(first));
  let guess = null;
  element.addEventListener("guessed", ({detail: [slope]}) => {
    guess = slope.value;
    redraw();
  });

  function draw() {
    if (!scatter.width && !plane.width) return;
    const result = study(records, data.odd);
    if (scatter.width) drawScatter(result);
    if (plane.width) drawGradients(result);
    const [before, after] = [result.without[0], result.with[0]].map((slope) => decimals(slope));
    write(element, "title", conclusion(result), [[before, "twin"], [after, "attack"]]);
    write(element, "fact", comparison(result));
    speak(`${conclusion(result)}. ${comparison(result)}`);
  }

  function drawScatter(result) {
    const {width, height} = scatter;
    const inner = [28, 14, width - 96, height - 26];
    const {x, y} = scatter.frame(data.x_range, data.y_range, inner);
    const ends = ([a, b]) => [-X_LABEL, X_LABEL].map((at) => [x(at), y(a * at + b)]);
    const named = [[result.without, "without it", "twin halo"], [result.with, "with it", "strong halo"]];
    if (guess !== null) named.push([through(records, guess), `your ${decimals(guess)}`, "ink halo"]);
    const heights = fanned(named.map(([[a, b]]) => clamp(y(a * X_LABEL + b) + 5, 26, height - 34)));
    const [px, py] = [x(records[data.odd][0]), y(records[data.odd][1])];
    scatter.show([
      ...[-2, 0, 2].flatMap((value) => [rule([inner[0], y(value)], [inner[2], y(value)]), text([20, y(value) + 4], decimals(value, 0), "", "end")]),
      ...[-1, 0, 1].map((value) => text([x(value), height - 6], decimals(value, 0), "", "middle")),
      text([16, 11], "y", "it", "middle"), text([inner[2], height - 6], "x", "it", "end"),
      ...clipped(inner, [
        line(ends(result.without), "s-twin dashed"), line(ends(result.with), "s-ink"),
        ...(guess === null ? [] : [line(ends(through(records, guess)), "thin s-ink dotted")]),
        ...records.flatMap(([a, b], i) => {
          const from = [x(a), y(result.without[0] * a + result.without[1])];
          const isOdd = i === data.odd;
          return arrow(from, shortened(from, [x(a), y(b)], isOdd ? 12 : 5), isOdd ? "s-attack" : "thin s-private", isOdd ? "f-attack" : "f-private", isOdd ? 10 : 6);
        }),
      ]),
      circles(records.filter((_, i) => i !== data.odd).map(([a, b]) => [x(a), y(b)]), 4, "f-twin"),
      ...named.map(([, words, css], i) => text([x(X_LABEL) + 6, heights[i]], words, css)),
      ...invitation(scatter, [px, py]),
    ]);
    record.show(`slope ${decimals(result.with[0])}`);
  }

  function drawGradients(result) {
    const {width, height} = plane;
    const reach = Math.max(...result.pulls.map(([a, b]) => Math.max((Math.abs(a) * height) / width, Math.abs(b))));
    const span = SPANS.find((half) => half >= 1.03 * reach) ?? SPANS.at(-1);
    const side = (span * width) / height;
    const {x, y} = plane.frame([-side, side], [-span, span], [0, 0, width, height]);
    const at = ([a, b]) => [x(a), y(b)];
    const zero = at([0, 0]);
    const ruler = span / 4;
    plane.show([
      {name: "rect", attributes: {class: "f-sunken", width, height}},
      ...result.pulls.flatMap((pull, i) => (i === data.odd ? [] : arrow(zero, at(pull), "thin s-private", "f-private", 6))),
      ...arrow(zero, at(result.pulls[data.odd]), "s-attack", "f-attack", 11),
      disc(zero, 3.5, "f-ink"),
      line([[width - 14 - (x(ruler) - x(0)), height - 14], [width - 14, height - 14]], "thin s-ink"),
      text([width - 14, height - 20], decimals(ruler, 2), "", "end"),
      text([8, 18], "slope →, intercept ↑"),
    ]);
  }
  const redraw = oncePerFrame(draw);
  const others = fit(data.records.filter((_, i) => i !== data.odd));
  playOnce(element, glide(others[0] * first[0] + others[1], first[1], FRAMES).map((y) => () => move([first[0], y])), TICK_MS);
}
