/** Labels of an SVG chart, placed by `labels.js`. */

import {placeLabels} from "./labels.js";
import {rule, text} from "../lib/svg.js";

const BASELINE = 13; // px from the upper edge of a label to the baseline of its text

/**
 * Texts and leader lines.
 * @param {(import("./labels.js").Label & {css?: string})[]} labels anchors in px of the drawing, the most important first
 * @param {[number, number, number, number]} edges left, top, right and bottom of the labels' room
 * @param {{lines: [number, number][][], boxes?: import("./labels.js").Box[]}} marks in px of the drawing
 * @param {(label: import("./labels.js").Label) => import("../lib/svg.js").Mark[]} [otherwise] marks of a label without a
 *   place, by default none
 * @returns {import("../lib/svg.js").Mark[]}
 */
export function labelMarks(labels, [left, top, right, bottom], {lines, boxes = []}, otherwise = () => []) {
  const within = ([x, y]) => [x - left, y - top];
  const placed = placeLabels(labels.map((label) => ({...label, anchors: label.anchors.map(within)})), {
    width: right - left,
    height: bottom - top,
    lines: lines.map((points) => points.map(within)),
    boxes: boxes.map((box) => ({...box, x: box.x - left, y: box.y - top})),
  });
  return placed.flatMap((box, i) => {
    if (!box) return otherwise(labels[i]);
    const leader = box.leader ? [rule(...box.leader.map(([x, y]) => [x + left, y + top]), "leader")] : [];
    return [...leader, text([box.x + left + 1, box.y + top + BASELINE], labels[i].text, labels[i].css ?? "")];
  });
}

/** Room of a disc that labels avoid. @param {[number, number]} at @returns {import("./labels.js").Box} */
export function discBox([x, y], radius) {
  return {x: x - radius, y: y - radius, w: 2 * radius, h: 2 * radius};
}
