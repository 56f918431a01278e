/** Charts of a group with one value per run; pure functions from the group's logs to marks of ../lib/svg.js. */

import {discBox, labelMarks} from "../charts/label_marks.js";
import {axesOf, linesOf} from "../charts/runs_axes.js";
import {axisMarks} from "../charts/runs_chart.js";
import {niceTicks, spaced, tickText} from "../charts/ticks.js";
import {decimals, percent, roundUp} from "../lib/format.js";
import {area, box, disc, line, rule, text} from "../lib/svg.js";
import {bestOf, endOf, rangesOf, valuesOf} from "./group_log.js";

/** @typedef {import("../lib/svg.js").Mark} Mark */
/** @typedef {import("./group_log.js").Member & {log: import("../runs/log/run_log.js").RunLog}} Followed */
/** @typedef {{range: [number, number], log: boolean, ticks: [number, string][], name: string}} ValueAxis axis of a sweep's values, from the server */

const LETTER = 7.2; // px, mean width of a letter of a tick

/** Members as runs of a chart of several runs. @param {Followed[]} members @returns {import("../charts/runs_chart.js").Run[]} */
export function runsOf(members) {
  return members.map((member) => ({...member, evaluations: member.log.evaluations, steps: [], is_done: endOf(member) !== null}));
}

/**
 * Chart of a result against the value of each run: a dot per run, a line through the means, and a band from the lowest
 * to the highest run of each value. `read` returns a result, or null; `words` writes the largest mean.
 */
function against(svg, members, {values: axis, y: ends, unit, read, words}) {
  const edges = [44, 26, svg.width - 12, svg.height - 44];
  const {x, y} = svg.frame(axis.range, ends.range, edges, {logX: axis.log});
  const place = (value, result) => [x(value.place), Math.min(y(ends.to(result)), edges[3])];
  const ranges = rangesOf(members, read);
  const [lows, means, highs] = ["low", "mean", "high"].map((name) => ranges.map((value) => place(value, value[name])));
  const dots = ranges.flatMap((value) => value.members.filter((member) => read(member) !== null).map((member) => [member.colour, place(value, read(member))]));
  const best = bestOf(ranges);
  const repeated = best && best.count > 1;
  const floor = repeated ? [[edges[0], place(best, best.low)[1]], [edges[2], place(best, best.low)[1]]] : [];
  const labels = best ? [{text: words(best), anchors: [place(best, best.mean), place(best, best.high)], css: "private halo"}] : [];
  if (repeated) labels.push({text: `lowest run of ${axis.name} = ${best.value}`, anchors: [floor[1], floor[0]], css: "halo"});
  return [
    ...axisMarks({x: {...axis, ticks: apart(axis.ticks, x)}, y: ends}, edges, {x, y, unit, name: axis.name}),
    ...(ranges.some(({count}) => count > 1) ? [area([...highs, ...lows.reverse()], "f-area")] : []),
    ...(repeated ? [line(floor, "s-ink thin dashed")] : []),
    line(means, "s-private"),
    ...dots.map(([colour, at]) => disc(at, repeated ? 3.5 : 4.5, `f-${colour}`)),
    ...labelMarks(labels, edges, {lines: [means, floor].filter((points) => points.length > 1), boxes: dots.map(([, at]) => discBox(at, 4))}),
  ];
}

/** Ticks with an empty text where texts would overlap. */
function apart(ticks, x) {
  let free = -Infinity;
  return ticks.map(([at, words]) => {
    const half = (LETTER * words.length) / 2;
    if (x(at) - half < free) return [at, ""];
    free = x(at) + half + 6;
    return [at, words];
  });
}

/** Final accuracy against the value. @param {{chart: object, values: ValueAxis}} view @returns {Mark[]} */
export function endAccuracies(svg, members, {chart, values}) {
  const [axis] = chart.axes;
  const ended = runsOf(members.filter((member) => endOf(member) !== null));
  const lasts = linesOf(ended, chart, axis).map((one) => ({...one, points: one.points.slice(-1)}));
  const {y} = axesOf(lasts, {...chart, ends: lasts.length ? null : chart.ends, is_small: false}, axis);
  const read = (member) => (endOf(member) === null ? null : 100 * endOf(member));
  return against(svg, members, {values, y, unit: chart.unit, read, words: ({mean}) => percent(mean / 100)});
}

/**
 * Final ε of one run of each value; runs without a guarantee have no point.
 * @param {{values: ValueAxis}} view @returns {Mark[]}
 */
export function endEpsilons(svg, members, {values}) {
  const firsts = valuesOf(members).flatMap(({members: runs}) => runs.filter((member) => epsilonOf(member) !== null).slice(0, 1));
  const top = 1.08 * Math.max(...firsts.map(epsilonOf), 0.01);
  const y = {range: [0, top], ticks: niceTicks(top, 5).map((tick) => [tick, tickText(tick)]), to: (epsilon) => epsilon};
  return against(svg, firsts, {values, y, unit: "ε", read: epsilonOf, words: ({mean}) => roundUp(mean)});
}

/** Final ε of a run, null without a guarantee or before its end. */
export function epsilonOf({log}) {
  return log.end?.epsilon ?? null;
}

/**
 * Bars of the accuracy lost to clipping and to noise.
 * @param {{clipping: number, noise: number} | null} split in shares @returns {Mark[]}
 */
export function splitBars(svg, split) {
  const rows = [["clipping", "good"], ["noise", "private"]];
  const values = split ? rows.map(([name]) => 100 * split[name]) : [0, 0];
  const [low, high] = [Math.min(0, ...values), Math.max(0.1, ...values)];
  const [left, right] = [76, svg.width - 64];
  const {x} = svg.frame([low, high], [0, 1], [left, 0, right, svg.height - 40]);
  const row = (svg.height - 44) / rows.length;
  const marks = [rule([x(0), 4], [x(0), svg.height - 40], "axis"), text([right, svg.height - 6], "percentage points", "", "end")];
  for (const tick of spaced([low, high], 5)) marks.push(text([x(tick), svg.height - 22], tickText(tick).replace("-", "−"), "", "middle"));
  rows.forEach(([name, colour], i) => {
    const y = 8 + i * row;
    marks.push(text([left - 10 + Math.min(0, x(low) - left), y + row / 2], name, "ink", "end"));
    if (!split) return;
    const ends = [x(0), x(values[i])].sort((a, b) => a - b);
    marks.push(box([ends[0], y], ends[1] - ends[0], row - 12, `f-${colour}`), text([Math.max(...ends) + 8, y + row / 2], decimals(values[i], 1), "ink"));
  });
  return marks;
}
