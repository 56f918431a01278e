/** Batch size at fixed ε and epochs: noise per update always falls, noise over the run hardly falls beyond some size. */

import {integer, percent} from "../../../../../static/js/lib/format.js";
import {Chart, arrow, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const LABELS = ["per update", "over the run"];
const STYLES = ["private", "ink"];
const [GRADIENT, SPREAD, TURN] = [72, 36, -1.7]; // px: of the arrow, of the noise at the smallest batch; direction of a draw

/**
 * Pure: share of the noise over the run that the next doubling of the batch removes; the last doubling ends at all
 * records.
 */
export function gain({points, doubling}, index) {
  const next = points[Math.min(index + doubling, points.length - 1)];
  return 1 - next.shares[1] / points[index].shares[1];
}

/** Pure: heading. */
export function conclusion({points}, index) {
  const {batch, shares} = points[index];
  return `A batch of ${integer(batch)} leaves ${percent(shares[0], 0)} of the noise per update of a batch of ${points[0].batch}, and ${percent(shares[1], 0)} of the noise over the run`;
}

/** Pure: effect of a larger batch. */
export function sentence(data, index) {
  const last = data.points.length - 1;
  if (index === last) return "These are all records in every step: no larger batch is left.";
  const next = index + data.doubling > last ? "Taking all records in every step" : "Twice the batch";
  return `${next} would take away another ${percent(gain(data, index), 0)} of the noise over the run.`;
}

export function mount(element, data) {
  const slider = part(element, "batch");
  const speak = speaker(element);
  const chart = new Chart(part(element, "chart"), {
    height: 230, label: "Two lines against the batch size: noise per update falls to almost nothing, noise over the run stays flat beyond some size", draw: () => draw(),
  });

  const arrows = new Chart(part(element, "arrows"), {
    height: 96, label: "The same gradient as an arrow twice, with a circle of the noise per update and one of the noise over the run, as shares of the noise of the smallest batch", draw: () => draw(),
  });

  function draw() {
    if (!chart.width) return;
    const index = Number(slider.value);
    const point = data.points[index];
    for (const name of ["steps", "sigma"]) write(element, name, point[name]);
    const words = integer(point.batch);
    write(element, "batch-words", words);
    slider.setAttribute("aria-valuetext", words);
    write(element, "title", conclusion(data, index));
    write(element, "fact", sentence(data, index));
    speak(`${conclusion(data, index)}. ${sentence(data, index)}`);
    chart.show(marks(chart, data.points, index));
    if (arrows.width) arrows.show(noisy(arrows.width, point));
  }
  const redraw = oncePerFrame(draw);
  slider.addEventListener("input", redraw);
}

/** A gradient, the circle of its noise, and one noisy arrow: of an update, and of the whole run. */
function noisy(width, {shares, relative}) {
  return shares.flatMap((share, i) => {
    const [left, y, radius] = [4 + (i * width) / 2, 38, SPREAD * share];
    const tip = [left + GRADIENT, y];
    return [
      disc(tip, radius, i ? "f-sunken" : "f-wash-private"),
      ...arrow([left, y], tip, "s-ink", "f-ink"),
      ...arrow([left, y], [tip[0] + radius * Math.cos(TURN), tip[1] + radius * Math.sin(TURN)], `s-${STYLES[i]} thin`, `f-${STYLES[i]}`),
      text([left, 90], `${LABELS[i]} `, STYLES[i]), text([left + 92, 90], relative[i], "strong"),
    ];
  });
}

function marks(chart, points, index) {
  const {width, height} = chart;
  const {x, y} = chart.frame([points[0].batch, points.at(-1).batch], [0, 1], [44, 34, width - 12, height - 44], {logX: true});
  const pointX = x(points[index].batch);
  return [
    ...[0, 0.5, 1].flatMap((share) => [rule([44, y(share)], [width - 12, y(share)]), text([36, y(share) + 4], percent(share, 0), "", "end")]),
    text([0, 14], `noise, as a share of that at batches of ${points[0].batch}`),
    ...[64, 1024, 16_384].map((batch) => text([x(batch), height - 24], integer(batch), "", "middle")),
    text([width - 12, height - 6], "expected batch size, log scale", "", "end"),
    rule([pointX, y(0)], [pointX, y(1)], "line thin s-ink dotted"),
    ...STYLES.flatMap((style, i) => [
      line(points.map((point) => [x(point.batch), y(point.shares[i])]), `s-${style}`),
      disc([pointX, y(points[index].shares[i])], 5, `f-${style}`),
      text([width - 12, y(points.at(-1).shares[i]) - 10], LABELS[i], `${style} halo`, "end"),
    ]),
  ];
}
