/** Drawings of one step: the batch, the sums, and all records. */

import {decimals} from "../../../../../static/js/lib/format.js";
import {area, arrow, box, circles, clamp, clipped, disc, fanned, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {mark24} from "../../../../../static/js/widgets/common/odd_record.js";
import {length} from "../../../../../static/js/widgets/common/toy_problem.js";
import {plus, scaled} from "../../../../../static/js/widgets/common/dpsgd_step.js";

const PLANE = 2.9; // half height of the plane of gradients, in data units
const SUMS = {reach: 5, centre: [0.8, 3], spread: 2.5}; // `reach`: half height at the noise level `spread`; it doubles with the noise
const RECORDS = [[-1.2, 1.2], [-2.6, 2.6]];

const across = ([a, b], x, y) => [-1.15, 1.15].map((at) => [x(at), y(a * at + b)]);

/** Records before the gradients are computed, drawn or not. Also returns the positions that can be selected. */
export function sample(chart, data, state) {
  const {width, height} = chart;
  const {x, y} = chart.frame(...RECORDS, [8, 8, width - 8, height - 8]);
  const place = (i) => [x(data.records[i][0]), y(data.records[i][1])];
  const indices = data.records.map((_, i) => i);
  const [cx, cy] = place(state.chosen);
  const marks = [
    box([0, 0], width, height, "f-sunken"), line(across(data.at, x, y), "s-ink"),
    text([x(1.15), y(data.at[1] + 1.15 * data.at[0]) + 26], "the line so far", "halo", "end"),
    circles(indices.filter((i) => state.drawn.includes(i)).map(place), 5, "f-private"),
    circles(indices.filter((i) => !state.drawn.includes(i)).map(place), 4.5, "ring s-faint"),
    ...(state.chosen === data.odd ? [] : [circles([[cx, cy]], 9, "ring s-ink")]), ...mark24(place(data.odd)),
    text([cx > width / 2 ? cx - 14 : cx + 14, cy + 4], `record ${state.chosen + 1}`, state.chosen === data.odd ? "attack halo" : "strong halo", cx > width / 2 ? "end" : "start"),
  ];
  return {marks, places: state.drawn.map((i) => [place(i), place(i)])};
}

/**
 * Gradients as arrows from the origin, with the circle of radius C; `shown` is the progress of the clipping
 * animation, 0 to 1.
 */
export function gradients(chart, data, state, step, isClipped) {
  const {width, height} = chart;
  const side = (PLANE * width) / height;
  const {x, y} = chart.frame([-side - 0.5, side - 0.5], [-PLANE - 0.4, PLANE - 0.4], [0, 0, width, height]);
  const at = ([a, b]) => [x(a), y(b)];
  const zero = at([0, 0]);
  const radius = x(state.bound) - x(0);
  const places = [];
  const chosen = state.drawn.indexOf(state.chosen);
  const order = state.drawn.map((_, i) => i).sort((i, j) => (i === chosen) - (j === chosen));
  const arrows = order.flatMap((i) => {
    const full = step.pulls[i];
    const part = isClipped ? 1 + (length(step.clipped[i]) / (length(full) || 1) - 1) * state.shown : 1;
    const tip = at(scaled(full, part));
    places[i] = [zero, tip];
    const isChosen = i === chosen;
    const isOdd = state.drawn[i] === data.odd;
    const colour = isOdd ? "attack" : isChosen ? "ink" : "private";
    const isLeft = tip[0] < zero[0] && tip[0] > 92; // outside the circle, if its name has room there
    const name = isLeft ? [tip[0] - 14, tip[1] + 4] : [clamp(tip[0] + 10, 4, width - 78), tip[1] + (tip[1] > zero[1] ? 18 : -8)];
    return [
      ...(isClipped && length(full) > state.bound ? [line([tip, at(full)], "thin s-twin dotted"), disc(at(full), 2.5, "f-twin")] : []),
      ...arrow(zero, tip, `${isChosen || isOdd ? "" : "thin "}s-${colour}`, `f-${colour}`, isChosen ? 11 : 8),
      ...(isOdd ? mark24(tip) : []),
      ...(isChosen ? [text([name[0], clamp(name[1], 16, height - 6)], `record ${state.chosen + 1}`, isOdd ? "attack halo" : "strong halo", isLeft ? "end" : "start")] : []),
    ];
  });
  const circle = (css) => ({name: "circle", attributes: {class: css, cx: zero[0], cy: zero[1], r: radius}});
  const marks = [
    box([0, 0], width, height, "f-sunken"),
    ...clipped([0, 0, width, height], [
      circle(isClipped ? "f-surface" : "soft f-surface"), circle(`line thin s-ink${isClipped ? "" : " dotted"}`),
      ...arrows, disc(zero, 4, "f-ink"),
    ]),
  ];
  return {marks, places};
}

/** True, clipped and noisy sums as arrows, with further noise samples; from "divide" on, in units of the mean. */
export function sums(chart, data, state, step, at, {isSummed, isNoisy, isDivided, hasTrail, guess}) {
  const {width, height} = chart;
  const zoom = 2 ** Math.max(0, Math.ceil(Math.log2(step.spread / SUMS.spread)));
  const reach = SUMS.reach * zoom;
  const side = (reach * width) / height;
  const [ca, cb] = SUMS.centre;
  const {x, y} = chart.frame([ca - side, ca + side], [cb - reach, cb + reach], [0, 0, width, height]);
  const place = ([a, b]) => [x(a), y(b)];
  const zero = place([0, 0]);
  const inside = [rule([0, zero[1]], [width, zero[1]]), rule([zero[0], 0], [zero[0], height])];
  if (isNoisy) inside.push(circles(state.ghosts.map((draw) => place(plus(step.sums.clipped, scaled(draw, step.spread)))), 2.4, "f-private light"));
  if (hasTrail) {
    let from = [0, 0];
    for (const [i, pull] of step.clipped.entries()) {
      const colour = state.drawn[i] === data.odd ? "attack" : "private";
      const to = plus(from, pull);
      inside.push(...arrow(place(from), place(to), `thin s-${colour} soft`, `f-${colour} soft`, 6));
      from = to;
    }
  }
  const ends = isSummed ? [["true", step.sums.true, "twin"], ["clipped", step.sums.clipped, "good"], ...(isNoisy ? [["noisy", step.sums.noisy, "private"]] : [])] : [];
  for (const [, end, css] of ends) {
    if (css === "private") inside.push(line([place(step.sums.clipped), place(end)], "thin s-private dotted"));
    inside.push(...arrow(zero, place(end), `s-${css}${css === "twin" ? " dashed" : ""}`, `f-${css}`, 10));
  }
  if (isSummed && guess !== null) {
    const turned = turnedTowards(step.sums.true, step.sums.clipped, guess);
    inside.push(line([zero, place(turned)], "thin s-ink dotted"), text(place(turned), `you: ${guess}°`, "ink halo", "middle"));
  }
  const labels = ends.map(([, end]) => clamp(place(end)[1] + 4, 14, height - 10));
  const heights = fanned(labels, 16, 14);
  ends.forEach(([words, end, css], i) => inside.push(text([clamp(place(end)[0] + 9, 4, width - 66), heights[i]], words, `${css} halo`)));
  inside.push(disc(zero, 4, "f-ink"));
  const unit = 2 * zoom;
  const right = width - 16;
  return [
    ...clipped([0, 0, width, height], inside),
    area([[0.5, 0.5], [width - 0.5, 0.5], [width - 0.5, height - 0.5], [0.5, height - 0.5]], "axis"),
    ...(isSummed
      ? [line([[right - (x(unit) - x(0)), height - 14], [right, height - 14]], "thin s-ink"), text([right, height - 20], isDivided ? decimals(unit / data.expected) : decimals(unit, 0), "", "end")]
      : [text([width / 2, height - 18], "Nothing summed yet", "", "middle")]),
  ];
}

/** The true sum rotated by an angle towards the clipped sum, slightly longer. */
function turnedTowards([a, b], [c, d], degrees) {
  const way = (Math.sign(a * d - b * c) || 1) * (degrees * Math.PI) / 180;
  return scaled([a * Math.cos(way) - b * Math.sin(way), a * Math.sin(way) + b * Math.cos(way)], 1.25);
}

/** All records with the line before the step, and the line after it if it has moved. */
export function records(chart, data, state, moved) {
  const {width, height} = chart;
  const {x, y} = chart.frame(...RECORDS, [2, 4, width - 2, height - 4]);
  const place = (i) => [x(data.records[i][0]), y(data.records[i][1])];
  const indices = data.records.map((_, i) => i);
  const [cx, cy] = place(state.chosen);
  const marks = [
    box([0, 0], width, height, "f-sunken"),
    line(across(data.at, x, y), moved ? "thin s-ink soft" : "s-ink"), ...(moved ? [line(across(moved, x, y), "s-private")] : []),
    line([[cx, cy], [cx, y(data.at[0] * data.records[state.chosen][0] + data.at[1])]], "thin s-ink dashed"),
    circles(indices.filter((i) => state.drawn.includes(i)).map(place), 3.4, "f-private"),
    circles(indices.filter((i) => !state.drawn.includes(i)).map(place), 3, "ring s-faint"),
    circles([[cx, cy]], 6.5, "ring s-ink"), ...mark24(place(data.odd)),
  ];
  return {marks, places: indices.map((i) => [place(i), place(i)])};
}

/** Pure: index of the segment nearest to a point, null if none is within 26 pixels. */
export function nearest([px, py], places) {
  let best = null;
  let least = 26;
  places.forEach(([[x0, y0], [x1, y1]], i) => {
    const [dx, dy] = [x1 - x0, y1 - y0];
    const size = dx * dx + dy * dy;
    const part = size ? clamp(((px - x0) * dx + (py - y0) * dy) / size, 0.25, 1) : 1;
    const away = Math.hypot(px - x0 - part * dx, py - y0 - part * dy);
    if (away < least) [least, best] = [away, i];
  });
  return best;
}
