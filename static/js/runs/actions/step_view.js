/** View of one step: gradients in a plane, and the norms of all gradients as bars. */

import {integer, significant} from "../../lib/format.js";
import {Chart, area, arrow, box, clipped, disc, line, rule, scale, showTable, text} from "../../lib/svg.js";

/**
 * @typedef {object} ExaminedStep a `microscope` event
 * @property {number} step number of the step
 * @property {number} records size of the drawn batch
 * @property {number} shown number of gradients in the plane
 * @property {number} parameters
 * @property {number | null} max_grad_norm null without clipping
 * @property {number} cut number of clipped gradients
 * @property {number[]} lengths gradient norms, in decreasing order, thinned
 * @property {number[][]} points gradients in the plane, before clipping
 * @property {number[]} factors clipping factors of these points
 * @property {Record<string, number[]>} arrows mean gradients in the plane: true, clipped, noisy
 * @property {number} noise_length expected norm of the noise in the mean
 * @property {number | null} noisy_length
 */

const HEIGHT = 280;
const WIDEST = 2.5; // largest half height of the plane, in units of C
const MEANS = {
  true: ["s-twin dotted", "f-twin", "mean"],
  clipped: ["s-private", "f-private", "mean, clipped"],
  noisy: ["s-ink", "f-ink", "with noise: the step"],
};

/** Pure: heading, and the line below it. @param {ExaminedStep} step */
export function stepWords(step) {
  const of = `${integer(step.cut)} of ${integer(step.records)} gradients`;
  const clip = step.max_grad_norm === null ? `${integer(step.records)} gradients, none is clipped` : `${of} are cut to C = ${significant(step.max_grad_norm)}`;
  const mean = Math.hypot(...step.arrows.clipped);
  const noise = step.noise_length > 0 && mean > 0 ? `; the noise is ${significant(step.noise_length / mean, 2)} times as long as their mean` : "";
  const some = step.shown < step.records ? `${integer(step.shown)} of the drawn records` : "the drawn records";
  return [
    `Step ${integer(step.step)}: ${clip}${noise}`,
    `Gradients of ${some} in the plane where they differ most, of ${integer(step.parameters)} dimensions; next to it, the lengths of all`,
  ];
}

/** Pure: half height of the plane, with all points unless some are much longer than C. */
export function reach({points, arrows, max_grad_norm: bound}) {
  const far = Math.max(...[...points, ...Object.values(arrows)].map((point) => Math.hypot(...point)), 1e-12);
  return 1.1 * (bound === null ? far : Math.min(Math.max(far, bound), WIDEST * bound));
}

/** Pure: table of the step. */
export function stepTable(step) {
  const size = (name) => (step.arrows[name] ? significant(Math.hypot(...step.arrows[name])) : "–");
  return {
    caption: `Gradients of step ${integer(step.step)}, not private`,
    heads: ["Quantity", "Value"],
    words: [0],
    rows: [
      ["Records drawn", integer(step.records)],
      ["Cut to C", step.max_grad_norm === null ? "–" : integer(step.cut)],
      ["Longest gradient", step.lengths.length ? significant(step.lengths[0]) : "–"],
      ["Median gradient", step.lengths.length ? significant(step.lengths[Math.floor(step.lengths.length / 2)]) : "–"],
      ["Shortest gradient", step.lengths.length ? significant(step.lengths.at(-1)) : "–"],
      ["Mean of those shown, in the plane", size("true")],
      ["The same, clipped", size("clipped")],
      ["Noise on the mean, expected length", significant(step.noise_length)],
      ["The noisy mean, the step's direction", step.noisy_length === null ? "–" : significant(step.noisy_length)],
    ],
  };
}

/** Pure: marks of the plane. */
export function planeMarks({width, height}, step) {
  const half = reach(step);
  const side = (half * width) / height;
  const [x, y] = [scale([-side, side], [0, width]), scale([-half, half], [height, 0])];
  const at = ([a, b]) => [x(a), y(b)];
  const zero = at([0, 0]);
  const thin = step.points.flatMap((point, i) => {
    const kept = point.map((value) => value * step.factors[i]);
    return [...(step.factors[i] < 1 ? [line([at(kept), at(point)], "thin s-twin dotted")] : []), ...arrow(zero, at(kept), "thin s-private", "f-private", 5)];
  });
  const bound = step.max_grad_norm;
  const circle = bound === null ? [] : [{name: "circle", attributes: {class: "line thin s-ink", cx: zero[0], cy: zero[1], r: x(bound) - x(0)}}];
  const means = Object.entries(step.arrows).flatMap(([name, tip]) => arrow(zero, at(tip), MEANS[name][0], MEANS[name][1], 9));
  return [
    box([0, 0], width, height, "f-sunken"),
    ...clipped([0, 0, width, height], [
      rule([0, zero[1]], [width, zero[1]]), rule([zero[0], 0], [zero[0], height]), ...thin, ...circle, ...means, disc(zero, 3, "f-ink"),
    ]),
    ...(bound === null ? [] : [text([8, 18], `circle: C = ${significant(bound)}`, "halo")]),
    text([8, height - 10], "dotted: what clipping takes; thick: the means", "halo"),
  ];
}

/** Pure: one bar per record, in decreasing order; the part above C is pale. */
export function lengthMarks({width, height}, {lengths, records, cut, max_grad_norm: bound}) {
  const [left, top, right, bottom] = [46, 24, width - 8, height - 26];
  if (lengths.length === 0) return [text([left, height / 2], "No record was drawn")];
  const low = Math.max(Math.min(lengths.at(-1), bound ?? Infinity) / 2, lengths[0] * 1e-6, 1e-12);
  const y = scale([low, 2 * Math.max(lengths[0], bound ?? 0)], [bottom, top], {log: true});
  const x = scale([0, lengths.length], [left, right]);
  const outline = (most) => lengths.flatMap((length, i) => [i, i + 1].map((place) => [x(place), y(Math.max(low, Math.min(length, most)))]));
  const under = (points) => [[left, bottom], ...points, [right, bottom]];
  const ticks = [];
  for (let decade = Math.ceil(Math.log10(low)); 10 ** decade <= 2 * lengths[0]; decade++) ticks.push(10 ** decade);
  return [
    ...ticks.flatMap((value) => [rule([left, y(value)], [right, y(value)]), text([left - 6, y(value) + 4], significant(value), "", "end")]),
    area(under(outline(Infinity)), "f-twin light"),
    area(under(outline(bound ?? Infinity)), "f-private soft"),
    ...(bound === null ? [] : [line([[left, y(bound)], [right, y(bound)]], "s-ink"), text([right - 4, y(bound) - 6], `C: ${integer(cut)} cut`, "strong halo", "end")]),
    text([0, 11], "length, log scale"),
    text([left, height - 8], `${integer(records)} records, longest gradient first`),
  ];
}

export class StepView {
  /** @param {HTMLDetailsElement} root contains the figure, and can be collapsed */
  constructor(root) {
    this.root = root;
    this.step = null;
    this.isHeld = null; // null, so that the first step opens or collapses it
    const chart = (name, label) => new Chart(root.querySelector(`[data-step-${name}]`), {height: HEIGHT, label, draw: () => this.draw()});
    this.plane = chart("plane", "Gradients of one step in a plane");
    this.bars = chart("lengths", "Lengths of the gradients of one step, longest first");
    const button = root.querySelector("[data-step-show-table]");
    const table = root.querySelector("[data-step-table]");
    button.addEventListener("click", () => {
      table.hidden = !table.hidden;
      button.setAttribute("aria-expanded", String(!table.hidden));
      button.textContent = table.hidden ? "Show as table" : "Hide table";
    });
  }

  /**
   * @param {ExaminedStep | null} step null before the first examined step
   * @param {boolean} isHeld if true, the run is paused at this step; a running run collapses the view
   */
  show(step, isHeld = false) {
    if (isHeld !== this.isHeld) this.root.open = isHeld;
    this.isHeld = isHeld;
    if (step === this.step) return;
    this.step = step;
    this.root.hidden = step === null;
    if (step === null) return;
    const [title, sub] = stepWords(step);
    this.root.querySelector("[data-step-line]").textContent = `Step ${integer(step.step)}`;
    this.root.querySelector("[data-step-title]").textContent = title;
    this.root.querySelector("[data-step-sub]").textContent = sub;
    showTable(this.root.querySelector("[data-step-table]"), stepTable(step));
    this.draw();
  }

  draw() {
    if (!this.step) return;
    if (this.plane?.width) this.plane.show(planeMarks(this.plane, this.step));
    if (this.bars?.width) this.bars.show(lengthMarks(this.bars, this.step));
  }
}
