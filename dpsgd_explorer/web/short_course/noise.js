/** Scene 1: noise merges the two curves that an attacker sees, and at last breaks the model. */

import {Chart, area, line, rule, text} from "../../../static/js/lib/svg.js";
import {nine, part, write} from "./scene.js";

const HEIGHT = 230;
const NINE = 44; // px
const APART = 95; // px between the peaks, from which each has its own label

/** @param {Element} scene @param {any} data @param {import("./scene.js").Course} course */
export function mountNoise(scene, data, course) {
  const slider = part(scene, "noise");
  const chart = new Chart(part(scene, "plot"), {
    height: HEIGHT, label: "Two curves: what an attacker sees with record 24, and without it", draw: () => draw(),
  });
  const level = () => data.levels[Number(slider.value)];

  function draw() {
    if (chart.width) chart.show(curves(chart, data, level()));
    for (const name of ["limit", "accuracy"]) write(scene, name, level()[name]);
    write(scene, "sigma", level().noise);
    write(scene, "live", level().words);
    slider.setAttribute("aria-valuetext", `sigma ${level().noise}`);
  }
  slider.addEventListener("input", () => {
    draw();
    course.speak(`${level().words} At most ${level().limit} in 100 right guesses about this run; accuracy ${level().accuracy} in 100.`);
    if (level().is_merged) course.reach("merge");
    if (level().is_broken) course.reach("break");
  });
  draw();
  return {level};
}

function curves(chart, {places, without}, level) {
  const ends = [places[0], places.at(-1)];
  const top = Math.max(...without);
  const {x, y} = chart.frame(ends, [0, top], [4, NINE + 14, chart.width - 4, chart.height - 26]);
  const curve = (values) => values.map((value, i) => [x(places[i]), y(Math.min(value, top))]);
  const peak = level.with.indexOf(Math.max(...level.with));
  const at = [x(places[peak]), y(Math.min(level.with[peak], top))];
  const isApart = at[0] - x(0) > APART;
  return [
    area([[x(ends[0]), y(0)], ...curve(level.with), [x(ends[1]), y(0)]], "f-wash-private"),
    rule([0, y(0)], [chart.width, y(0)], "axis"),
    line(curve(without), "s-private dashed"), line(curve(level.with), "s-private"),
    text([x(0), y(0) + 19], isApart ? "without 24" : "without 24 dashed, with 24 full", "private", isApart ? "middle" : "start"),
    ...(isApart ? [text([at[0], y(0) + 19], "with 24", "private", "middle")] : []),
    nine([at[0], at[1] - 6], NINE, level.is_merged ? "hidden-in-noise" : ""),
  ];
}
