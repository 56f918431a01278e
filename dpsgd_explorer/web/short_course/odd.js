/** Scene 2: a record far from the others pulls the fitted line, unless every gradient is clipped. */

import {decimals} from "../../../static/js/lib/format.js";
import {Chart, circles, clipped, line, rule, text} from "../../../static/js/lib/svg.js";
import {oddRecord} from "../../../static/js/widgets/common/odd_record.js";
import {fit, gradient, length} from "../../../static/js/widgets/common/toy_problem.js";
import {oncePerFrame} from "../../../static/js/widgets/common/widget_parts.js";
import {animate, between, part} from "./scene.js";

const ROUNDS = 200;
const FAR = 1; // units of y that the record must be moved for a goal
const EDGE = 1; // x at which the shift of the line is shown
const CLIP_MS = 500;
const LABEL = 125; // px, at most

/** Pure: line at which the clipped gradients of all records add up to zero. */
export function clippedFit(records, bound) {
  let theta = fit(records);
  for (let round = 0; round < ROUNDS; round++) {
    const weights = records.map((record) => Math.min(1, bound / length(gradient(theta, record))));
    theta = weightedFit(records, weights);
  }
  return theta;
}

function weightedFit(records, weights) {
  const sum = (value) => records.reduce((total, record, i) => total + weights[i] * value(record), 0);
  const count = sum(() => 1);
  const [mx, my] = [sum(([x]) => x) / count, sum(([, y]) => y) / count];
  const slope = sum(([x, y]) => (x - mx) * (y - my)) / sum(([x]) => (x - mx) ** 2);
  return [slope, my - slope * mx];
}

/** Pure: shift of the line at x = 1 by the odd record, without clipping and with it. */
export function shifts({records, odd, bound}, place) {
  const others = records.filter((_, i) => i !== odd);
  const all = [...others, place];
  const at = ([slope, intercept]) => slope * EDGE + intercept;
  return {free: at(fit(all)) - at(fit(others)), clipped: at(clippedFit(all, bound)) - at(clippedFit(others, bound))};
}

/** @param {Element} scene @param {any} data @param {import("./scene.js").Course} course */
export function mountOdd(scene, {odd: data}, course) {
  const others = data.records.filter((_, i) => i !== data.odd);
  const alone = {free: fit(others), clipped: clippedFit(others, data.bound)};
  const box = part(scene, "clip");
  let place = data.records[data.odd];
  let start = place;
  let share = 0; // of clipping, during its animation
  const chart = new Chart(part(scene, "plot"), {
    height: 300, role: "group", label: "24 records, and the line that is fitted to them", draw: () => draw(),
  });
  const handle = oddRecord(chart, data, {
    control: "odd", place: () => place,
    move: (to) => {
      place = to;
      if (Math.abs(to[1] - start[1]) > FAR) course.reach(box.checked ? "clip" : "drag");
      redraw();
    },
  });

  function draw() {
    if (!chart.width) return;
    const all = [...others, place];
    const mixed = (free, cut) => free.map((value, i) => between(value, cut[i], share));
    const model = mixed(fit(all), clippedFit(all, data.bound));
    const without = mixed(alone.free, alone.clipped);
    const moved = decimals(Math.abs(shifts(data, place)[box.checked ? "clipped" : "free"]));
    const inner = [8, 8, chart.width - 8, chart.height - 8];
    const {x, y} = chart.frame(data.x_range, data.y_range, inner);
    const ends = ([slope, intercept]) => data.x_range.map((at) => [x(at), y(slope * at + intercept)]);
    const [px, py] = [x(place[0]), y(place[1])];
    const foot = y(model[0] * place[0] + model[1]);
    const [from, to] = [without, model].map(([slope, intercept]) => y(slope * EDGE + intercept));
    /** Label at the left end of a line, on the side that is away from the other line. */
    const label = (theta, other, words, look) => {
      const [near, far] = [0, LABEL].map((pixels) => y(theta[0] * x.back(inner[0] + pixels) + theta[1]));
      const isAbove = theta[1] - theta[0] > other[1] - other[0] || (theta === model && theta[0] === other[0]);
      return text([inner[0] + 4, isAbove ? Math.min(near, far) - 10 : Math.max(near, far) + 20], words, look);
    };
    const css = box.checked ? "s-private" : "s-twin dashed";
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    chart.show([
      ...clipped(inner, [line(ends(without), "thin s-faint"), line(ends(model), css), line([[px, py], [px, foot]], "thin s-attack dotted")]),
      circles(others.map(([a, b]) => [x(a), y(b)]), 4, "f-twin"),
      ...(high - low > 6 ? [rule([x(EDGE) + 26, from], [x(EDGE) + 26, to], "line s-attack"), text([x(EDGE) + 20, (from + to) / 2 + 5], moved, "attack halo", "end")] : []),
      label(without, model, "fitted without 24", "halo"),
      label(model, without, box.checked ? "model, clipped" : "model, not clipped", `${box.checked ? "private" : "twin"} halo`),
    ]);
    handle.show(`the line moves by ${moved}`);
    part(scene, "live").replaceChildren("Record 24 moves the model’s answer by ", strong(moved), box.checked ? ", however hard it pulls." : ": that is how a model gives it away.");
  }
  const redraw = oncePerFrame(draw);
  box.addEventListener("change", () => {
    start = place;
    const from = share;
    animate(CLIP_MS, (done) => {
      share = between(from, Number(box.checked), done);
      draw();
    });
  });
  return {shifts: () => shifts(data, place)};
}

function strong(words) {
  const element = document.createElement("b");
  element.textContent = words;
  return element;
}
