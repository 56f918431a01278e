/** Drawing of the two curves that an attacker sees: with record 24, which stands on its curve, and without it. */

import {area, line, rule, text} from "../../lib/svg.js";

export const HEIGHT = 230;
const NINE = 44; // px
const APART = 95; // px between the peaks, from which each has its own label

/** Record 24 as a hand-drawn nine, its foot at a place. @returns {import("../../lib/svg.js").Mark} */
export function nine([x, y], height, css = "") {
  const width = 0.8 * height;
  return {name: "use", attributes: {class: `nine ${css}`, href: "#nine", x: Math.round(x - width / 2), y: Math.round(y - height), width, height}};
}

/**
 * Marks of both curves, and of what they share.
 * @param {import("../../lib/svg.js").Chart} chart @param {{places: number[], without: number[]}} data
 * @param {{with: number[], is_merged: boolean}} level
 */
export function humps(chart, {places, without}, level) {
  const ends = [places[0], places.at(-1)];
  const top = Math.max(...without);
  const {x, y} = chart.frame(ends, [0, top], [4, NINE + 14, chart.width - 4, chart.height - 26]);
  const curve = (values) => values.map((value, i) => [x(places[i]), y(Math.min(value, top))]);
  const under = (values, css) => area([[x(ends[0]), y(0)], ...curve(values), [x(ends[1]), y(0)]], css);
  const peak = level.with.indexOf(Math.max(...level.with));
  const at = [x(places[peak]), y(Math.min(level.with[peak], top))];
  const isApart = at[0] - x(0) > APART;
  const shared = level.with.map((value, i) => Math.min(value, without[i]));
  return [
    under(level.with, "f-wash-private"), under(shared, "f-area"),
    rule([0, y(0)], [chart.width, y(0)], "axis"),
    line(curve(without), "s-private dashed"), line(curve(level.with), "s-private"),
    text([x(0), y(0) + 19], isApart ? "without 24" : "without 24 dashed, with 24 full", "private", isApart ? "middle" : "start"),
    ...(isApart ? [text([at[0], y(0) + 19], "with 24", "private", "middle")] : []),
    nine([at[0], at[1] - 6], NINE, level.is_merged ? "hidden-in-noise" : ""),
  ];
}
