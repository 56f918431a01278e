/**
 * The fuel gauge: epsilon spent of the budget, and under each tick what its ε alone allows an
 * attacker. Own SVG, drawn to the scale of the chart above it.
 *
 * @typedef {object} GaugeView
 * @property {import("../../charts/plan.js").Plan} plan
 * @property {number | null} epsilon spent so far
 * @property {number | null} next epsilon once another epoch is done; null: none will be
 * @property {number} width of the drawing, px
 * @property {{l: number, r: number}} margin of the chart above
 */

import {decimalsUp} from "../../lib/format.js";

const SVG = "http://www.w3.org/2000/svg";
const BAR = 18;
const BEYOND = 1.1;
const NARROW = 480;
const CAPTION_FITS = 520; // px
const CAPTION = "A guess about one record is right at most, by ε alone";
const SHORT_CAPTION = "Right at most, by ε alone";

export const HEIGHT = 84;

/**
 * Pure: a view in, shapes and words out, in drawing order.
 * @param {GaugeView} view
 * @returns {{tag: string, attributes: Record<string, string | number>, text?: string}[]}
 */
export function drawing({plan, epsilon, next, width, margin}) {
  const x = (value) => margin.l + (value / (plan.budget * BEYOND)) * (width - margin.l - margin.r);
  const [start, end] = [x(0), x(plan.budget)];
  const spent = Math.min(x(epsilon ?? 0), end);
  const rail = (y) => ({tag: "path", attributes: {class: "axis", d: `M${start} ${y}H${end}`}});
  return [
    rect("f-sunken", start, end),
    rect("f-budget", start, spent),
    ...hatched(spent, next === null ? spent : Math.min(x(next), end)),
    rail(0.5),
    rail(BAR),
    {tag: "path", attributes: {class: "line s-budget", d: `M${end} 0V${BAR + 1}`}},
    ...scale(plan, x, width),
    word(margin.l - 18, BAR + 20, "ε", "it ink", "end"),
    word(margin.l - 8, BAR + 58, caption(plan, width), "", "start"),
  ];
}

/** What the percents below the ticks are, and the limit of the planned run. */
function caption({run_odds: odds}, width) {
  const words = width < CAPTION_FITS ? SHORT_CAPTION : CAPTION;
  return odds ? `${words}; this run: ${odds} %` : words;
}

function rect(name, from, to) {
  return {tag: "rect", attributes: {class: name, x: from, y: 0, width: Math.max(0, to - from), height: BAR}};
}

/** What the next epoch will cost. */
function hatched(from, to) {
  const lines = [];
  for (let at = from + 4; at + 4 < to; at += 5) {
    lines.push({tag: "path", attributes: {class: "hatch", d: `M${at} ${BAR}L${at + 4} 0`}});
  }
  return [rect("f-wash-budget", from, to), ...lines];
}

function scale(plan, x, width) {
  const every = width < NARROW && plan.ticks.length > 5 ? 2 : 1;
  return plan.ticks.flatMap(({epsilon, text, odds}, i) => {
    const at = x(epsilon);
    const tick = {tag: "path", attributes: {class: "axis", d: `M${at} ${BAR}V${BAR + 6}`}};
    if (i % every !== 0) return [tick];
    return [tick, word(at, BAR + 20, text, "ink"), word(at, BAR + 38, `${odds} %`)];
  });
}

function word(x, y, text, name = "", anchor = "middle") {
  return {tag: "text", attributes: {x, y, class: name, "text-anchor": anchor}, text};
}

/** What the gauge says, for those who do not see it. */
export function sentence({plan, epsilon}) {
  if (!plan.private) return "There is no privacy budget: the run has no guarantee.";
  return `ε spent: ${decimalsUp(epsilon ?? 0, plan.digits)} of ${plan.budget_text}.`;
}

/** Owns one svg element. */
export class Gauge {
  /** @param {SVGSVGElement} element */
  constructor(element) {
    this.element = element;
  }

  /** @param {GaugeView} view */
  update(view) {
    const {element} = this;
    element.setAttribute("viewBox", `0 0 ${view.width} ${HEIGHT}`);
    element.setAttribute("aria-label", sentence(view));
    const items = view.plan.private ? drawing(view) : [word(view.margin.l, BAR, "No noise, no budget: ε = ∞", "attack", "start")];
    element.replaceChildren(...items.map(node));
  }
}

function node({tag, attributes, text}) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
