/** Six drawings of the trainings' results. Worlds have different shapes and dashes, calls have different colours. */

import {labelWidth} from "../../../../../static/js/charts/labels.js";
import {decimals, integer} from "../../../../../static/js/lib/format.js";
import {invitation} from "../../../../../static/js/widgets/common/odd_record.js";
import {density, interval} from "../../../../../static/js/widgets/common/statistics.js";
import {area, circles, clamp, clipped, diamond, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {moved} from "../../../../../static/js/widgets/common/toy_problem.js";
import {mostHits, placeAbove} from "./limit.js";
import {percent, rightCalls} from "./words.js";

const SPANS = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2]; // possible half heights of the cloud's window
export const REACH = 5; // half range of the score axis, in standard deviations
const SHARES = Array.from({length: 81}, (_, i) => (i / 80) ** 2);
const NOBODY = ["no attack", "gets here"]; // two rows, because the area is narrow
const ROW = 16; // px, height of a row
const TALLER = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/** All records with the mean line of each world; the odd record can be moved. */
export function records(chart, data, {axis}, {record}) {
  const inner = [28, 10, chart.width - 8, chart.height - 24];
  const {x, y} = chart.frame(data.x_range, data.y_range, inner);
  const [without, with_] = axis.means.map(([a, b]) => data.x_range.map((at) => [x(at), y(a * at + b)]));
  const others = moved(data, record).filter((_, i) => i !== data.odd);
  return [
    ...[-2, 0, 2].flatMap((value) => [rule([inner[0], y(value)], [inner[2], y(value)]), text([20, y(value) + 4], decimals(value, 0), "", "end")]),
    ...[-1, 0, 1].map((value) => text([x(value), chart.height - 6], decimals(value, 0), "", "middle")),
    ...clipped(inner, [line(without, "s-private dashed"), line(with_, "s-private")]),
    circles(others.map(([a, b]) => [x(a), y(b)]), 3.4, "f-twin"),
    text([inner[0] + 8, inner[1] + 14], "mean lines; without it, dashed", "private halo"),
    ...invitation(chart, [x(record[0]), y(record[1])]),
  ];
}

/** One dot per training, and the threshold as a line across the plane. */
export function cloud(chart, {axis, ends}, {cut, count}, pilots, hasThreshold) {
  const inner = [44, 18, chart.width - 4, chart.height - 28];
  const wide = (inner[2] - inner[0]) / (inner[3] - inner[1]);
  const worlds = ends.map((values) => Array.from({length: count}, (_, i) => [values[2 * (pilots + i)], values[2 * (pilots + i) + 1]]));
  const [ca, cb] = axis.middle;
  const sizes = worlds.flat().map(([a, b]) => Math.max(Math.abs(a - ca) / wide, Math.abs(b - cb))).sort((p, q) => p - q);
  const span = SPANS.find((size) => size >= 2 * sizes[Math.floor(0.985 * sizes.length)]) ?? SPANS.at(-1);
  const {x, y} = chart.frame([ca - (span * wide) / 2, ca + (span * wide) / 2], [cb - span / 2, cb + span / 2], inner);
  const step = span / 4;
  const digits = step > 0.09 ? 1 : step > 0.04 ? 2 : 3;
  const ticks = (from, to) => Array.from({length: Math.floor(to / step) - Math.ceil(from / step) + 1}, (_, i) => (Math.ceil(from / step) + i) * step);
  const [u, v] = axis.direction;
  const [pa, pb] = [ca + axis.step[0] * cut, cb + axis.step[1] * cut];
  const far = (span * (wide + 1)) / Math.hypot(u, v);
  const radius = count > 500 ? 1.6 : 2.8;
  const placed = worlds.map((points) => points.map(([a, b]) => [x(a), y(b)]));
  return [
    ...ticks(cb - span / 2, cb + span / 2).flatMap((value) => [rule([inner[0], y(value)], [inner[2], y(value)]), text([inner[0] - 6, y(value) + 4], decimals(value, digits), "", "end")]),
    ...ticks(ca - (span * wide) / 2, ca + (span * wide) / 2).filter((value) => x(value) > inner[0] + 12 && x(value) < inner[2] - 50).map((value) => text([x(value), chart.height - 10], decimals(value, digits), "", "middle")),
    text([0, 11], "intercept"), text([inner[2], chart.height - 10], "slope", "", "end"),
    ...clipped(inner, [
      circles(placed[1], radius, "f-private soft"), circles(placed[0], radius, "ring s-private"),
      ...(hasThreshold ? [line([-1, 1].map((side) => [x(pa - side * far * v), y(pb + side * far * u)]), "thin s-ink")] : []),
    ]),
  ];
}

/** Densities of both worlds; the areas beyond the threshold are shaded. */
export function densities(chart, {scores}, {cut}, {hits, alarms}) {
  const places = Array.from({length: 101}, (_, i) => -REACH + (2 * REACH * i) / 100);
  const curves = scores.map((values) => density(values, places));
  const {x, y} = chart.frame([-REACH, REACH], [0, 1.12 * Math.max(...curves.flat())], [4, 40, chart.width - 4, chart.height - 28]);
  const points = curves.map((curve) => curve.map((value, i) => [x(places[i]), y(value)]));
  const called = points.map((curve) => [[x(cut), y(0)], ...curve.filter(([at]) => at >= x(cut)), [x(REACH), y(0)]]);
  const isRight = x(cut) < chart.width - 170;
  return [
    area(called[1], "f-wash-attack"), area(called[0], "f-attack light"),
    rule([0, y(0)], [chart.width, y(0)], "axis"),
    ...[-4, -2, 0, 2, 4].map((value) => text([x(value), chart.height - 10], decimals(value, 0), "", "middle")),
    line(points[0], "s-private dashed"), line(points[1], "s-private"),
    line([[x(cut), 24], [x(cut), y(0)]], "thin s-ink"),
    text([0, 62], "without it, dashed", "private halo"), text([0, 80], "with it", "private halo"),
    text([chart.width, 62], `${integer(hits)} hits`, "attack halo", "end"),
    text([chart.width, 80], `${integer(alarms)} false`, "attack halo", "end"),
    text([x(cut) + (isRight ? 18 : -18), 21], isRight ? "says “it was there” →" : "← says “it was not”", "strong halo", isRight ? "start" : "end"),
  ];
}

/** Hits against false alarms at every threshold, the limit of any attack, and the limit from ε alone. */
export function thresholds(chart, {scores}, {count}, {hits, alarms}, lines) {
  const {x, y} = chart.frame([0, 1], [0, 1], [44, 28, chart.width - 14, chart.height - 28]);
  const limit = SHARES.map((share) => [x(share), y(mostHits(lines, share))]);
  const pair = SHARES.map((share) => [x(share), y(mostHits([lines.at(-1)], share))]);
  const [without, with_] = scores.map((values) => Float64Array.from(values).sort().reverse());
  const curve = [[x(0), y(0)]];
  for (let i = 0, j = 0; i < count || j < count;) {
    if (j < count && (i >= count || with_[j] >= without[i])) j++;
    else i++;
    curve.push([x(i / count), y(j / count)]);
  }
  const [at, up] = [x(alarms / count), y(hits / count)];
  const [hitRange, alarmRange] = [interval(hits, count).map(y), interval(alarms, count).map(x)];
  const isNarrow = chart.width < 380;
  const place = placeAbove(lines, {x, y}, [Math.max(...NOBODY.map(labelWidth)), ROW * NOBODY.length]);
  return [
    area([...limit, [x(0), y(1)]], "f-wash-budget"),
    ...[0, 0.5, 1].flatMap((share) => [
      rule([x(0), y(share)], [x(1), y(share)]), text([38, y(share) + 4], percent(share), "", "end"),
      ...(share === 0.5 && isNarrow ? [] : [text([x(share), chart.height - 10], percent(share), "", share === 1 ? "end" : "middle")]),
    ]),
    text([0, 11], "hits"), text([x(isNarrow ? 0.5 : 0.76), chart.height - 10], "false alarms", "", "middle"),
    line([[x(0), y(0)], [x(1), y(1)]], "thin s-faint dotted"),
    line(pair, "thin s-budget dashed"), line(limit, "s-budget"), line(curve, "thin s-attack"),
    ...(place ? NOBODY.map((words, row) => text([place[0], place[1] + 12 + ROW * row], words, "budget")) : []),
    line(hitRange.map((height) => [at, height]), "fat s-attack soft"), line(alarmRange.map((place) => [place, up]), "fat s-attack soft"),
    disc([at, up], 5, "f-attack"),
    text([clamp(at + 12, 0, chart.width - 110), clamp(up + 26, 60, chart.height - 60)], "your threshold", "attack halo"),
    text([x(0.98), y(0.06)], "full: this run; dashed: ε alone", "", "end"),
  ];
}

/** Correct calls at every σ, the limit of any attack, and the visitor's predictions. */
export function levels(chart, data, state, tally, {sweep, guesses}) {
  const last = data.noise.length - 1;
  const points = data.rates[state.rate].points;
  const {x, y} = chart.frame([0, last], [0.5, 1], [56, 28, chart.width - 20, chart.height - 28]);
  const limit = points.map(({most: [run]}, i) => [x(i), y(Number(run) / 100)]);
  const [share, low, high] = rightCalls(tally).map((value) => y(clamp(value, 0.5, 1)));
  const measured = (sweep ?? []).map((value, i) => [x(i), y(clamp(value, 0.5, 1))]);
  const place = (noise) => (Math.log(noise / data.noise[0]) / Math.log(data.noise[last] / data.noise[0])) * last;
  return [
    area([...limit, [x(last), y(1)], [x(0), y(1)]], "f-wash-budget"),
    ...[0.5, 0.75, 1].flatMap((value) => [rule([x(0), y(value)], [x(last), y(value)]), text([38, y(value) + 4], percent(value), "", "end")]),
    ...data.noise.flatMap((noise, i) => (i % 3 ? [] : [text([x(i), chart.height - 10], decimals(noise, 0), "", "middle")])),
    text([0, 11], "right calls"), text([x(last - 1.4), chart.height - 10], "σ, log", "", "middle"),
    line(limit, "s-budget"), text([x(last) - 8, y(1) + 22], "no attack gets here", "budget", "end"),
    line(measured, "thin s-attack"), circles(measured, 2, "f-attack"),
    ...guesses.filter(({value, at}) => value !== null && at).flatMap(({value, at, words}) => {
      const spot = [x(place(at.x)), y(clamp(value, 0.5, 1))];
      return [diamond(spot, 7, "guess-mark"), text([spot[0] + 13, spot[1] + 4], `you: ${words}`, "ink halo")];
    }),
    line([[x(state.noise), low], [x(state.noise), high]], "fat s-attack soft"), disc([x(state.noise), share], 5, "f-attack"),
  ];
}

/** Distributions of the privacy loss in both worlds, the band ±ε, and δ magnified to be visible. */
export function losses(chart, data, {epsilon, largest, with: with_, without, beyond}) {
  const {x, y} = chart.frame([-data.reach, data.reach], [0, 1.2], [4, 20, chart.width - 4, chart.height - 40]);
  const width = (2 * data.reach) / with_.length;
  const curve = (values) => values.map((value, i) => [x(-data.reach + (i + 0.5) * width), y(value)]);
  const heights = beyond.map((share) => (share * data.delta) / largest);
  const taller = TALLER.findLast((factor) => factor * Math.max(...heights) <= 0.5) ?? 1;
  const tail = heights.flatMap((height, i) => [0, 1].map((side) => [x(1 + (i + side) * width), y(taller * height)]));
  return [
    area([[x(-1), y(0)], [x(-1), 20], [x(1), 20], [x(1), y(0)]], "f-wash-good"),
    area([[x(1), y(0)], ...tail, [x(data.reach), y(0)]], "f-budget soft"),
    rule([0, y(0)], [chart.width, y(0)], "axis"),
    line(curve(without), "s-private dashed"), line(curve(with_), "s-private"),
    ...[-1, 1].map((side) => line([[x(side), 20], [x(side), y(0)]], "thin s-good")),
    text([x(-1), chart.height - 22], `−ε = −${epsilon}`, "good", "middle"), text([x(0), chart.height - 22], "0", "", "middle"),
    text([x(1), chart.height - 22], `ε = ${epsilon}`, "good", "middle"),
    text([chart.width, chart.height - 4], "privacy loss: ln of the ratio, with to without", "", "end"),
    text([x(-1) + 8, 38], "the band", "good halo"),
    text([chart.width, 38], `δ = ${data.delta}`, "budget halo", "end"),
    text([chart.width, 54], `${taller} times taller`, "budget halo", "end"),
  ];
}
