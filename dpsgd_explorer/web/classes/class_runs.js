/**
 * Chart of the runs of a class; pure functions from lines to marks. Lines are thin and have one colour; the selected
 * line is highlighted and named.
 * @typedef {import("../../../static/js/charts/overlay.js").Line & {id: string, student: string}} ClassLine `letter`
 *   is the id, for `nearest`
 */

import {MARGIN} from "../../../static/js/charts/overlay.js";
import {nameOf} from "../../../static/js/charts/overlay_axes.js";
import {disc, line, rule, text} from "../../../static/js/lib/svg.js";

const NAME_WIDTH = 110; // px
const MAX_NAME_LENGTH = 24; // characters

/**
 * Pure: marks of the chart.
 * @param {{lines: ClassLine[], axis: string, lit: string | null}} view `lit`: id of the selected run
 * @param {{x: (v: number) => number, y: (v: number) => number, axes: object, width: number, height: number}} frame
 *   scales in pixels
 */
export function classMarks({lines, axis, lit}, {x, y, axes, width, height}) {
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const place = ({x: u, y: v}) => [x(u), y(axes.y.to(v))];
  const shown = lines.filter(({points}) => points.length > 0);
  const selected = shown.find(({id}) => id === lit);
  return [
    ...axes.y.ticks.flatMap(([at, words]) => [rule([MARGIN.left, y(at)], [right, y(at)]), text([MARGIN.left - 8, y(at) + 4.5], words, "", "end")]),
    text([MARGIN.left - 8, MARGIN.top - 12], "%", "", "end"),
    rule([MARGIN.left, bottom], [right, bottom], "axis"),
    ...axes.x.ticks.map(([at, words]) => text([x(at), bottom + 19], words, "", "middle")),
    text([right, bottom + 37], `${nameOf(lines, axis)}${axes.x.log ? ", log scale" : ""}`, "", "end"),
    ...shown.filter((other) => other !== selected).flatMap(({points, private: isPrivate}) => [line(points.map(place), `s-ghost thin${isPrivate ? "" : " dashed"}`), disc(place(points.at(-1)), 2.5, "f-ghost")]),
    ...(selected ? litMarks(selected, place, right) : []),
  ];
}

function litMarks({points, private: isPrivate, student}, place, right) {
  const [u, v] = place(points.at(-1));
  const atTheEnd = u + NAME_WIDTH > right;
  const words = `${short(student)} ${points.at(-1).y.toFixed(1)} %`;
  return [
    line(points.map(place), `s-private${isPrivate ? "" : " dashed"}`),
    disc([u, v], 4.5, "f-private"),
    text([atTheEnd ? u : u + 10, v - 10], words, "private", atTheEnd ? "end" : "start"),
  ];
}

function short(name) {
  return name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH - 1)}…` : name;
}

/** Heading: range of the latest accuracies. @param {ClassLine[]} lines */
export function classConclusion(lines) {
  const ends = lines.filter(({points}) => points.length > 0).map(({student, points}) => ({student, y: points.at(-1).y}));
  if (ends.length === 0) return lines.length ? "Curves will appear here" : "No training yet";
  if (ends.length === 1) return `${ends[0].student} is at ${ends[0].y.toFixed(1)} %`;
  const ordered = ends.map(({y}) => y).sort((a, b) => a - b);
  return `${ends.length} runs are between ${ordered[0].toFixed(1)} and ${ordered.at(-1).toFixed(1)} %`;
}
