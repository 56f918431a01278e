/** Scene 1: noise merges the two curves that an attacker sees, and at last breaks the model. */

import {Chart} from "../../../static/js/lib/svg.js";
import {HEIGHT, humps} from "../../../static/js/widgets/common/humps.js";
import {part, write} from "./scene.js";

/** @param {Element} scene @param {any} data @param {import("./scene.js").Course} course */
export function mountNoise(scene, data, course) {
  const slider = part(scene, "noise");
  const chart = new Chart(part(scene, "plot"), {
    height: HEIGHT, label: "Two curves: what an attacker sees with record 24, and without it", draw: () => draw(),
  });
  const level = () => data.levels[Number(slider.value)];

  function draw() {
    if (chart.width) chart.show(humps(chart, data, level()));
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
