/** Budget of a run: its gauge, its ε by another accountant, and the panel content of both. */

import {FILTER, chartPlan} from "../../charts/plan.js";
import {accountantName, terms} from "../../forms/plan_panel.js";
import {getJson} from "../../lib/api.js";
import {decimalsUp, startOf} from "../../lib/format.js";
import {RunLog} from "../log/run_log.js";

/**
 * @typedef {object} GaugeView
 * @property {import("../../charts/plan.js").Plan} plan
 * @property {number | null} epsilon spent so far
 * @property {number | null} next ε after one more epoch; null at the end
 * @property {number} width of the drawing, px
 * @property {{l: number, r: number}} margin of the chart above
 */

const SVG = "http://www.w3.org/2000/svg";
const BAR = 18;
const BEYOND = 1.1;
const NARROW = 480;
const CAPTION_FITS = 520; // px
const CAPTION = "A guess about one record is right at most, by ε alone";
const SHORT_CAPTION = "Right at most, by ε alone";

export const HEIGHT = 84;

/**
 * Pure: shapes and texts of a view, in drawing order.
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

/** Caption of the percentages below the ticks, with the limit of the planned run. */
function caption({run_odds: odds}, width) {
  const words = width < CAPTION_FITS ? SHORT_CAPTION : CAPTION;
  return odds ? `${words}; this run: ${odds} %` : words;
}

function rect(name, from, to) {
  return {tag: "rect", attributes: {class: name, x: from, y: 0, width: Math.max(0, to - from), height: BAR}};
}

/** Hatching over the cost of the next epoch. */
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

/** Text alternative of the gauge. */
export function sentence({plan, epsilon}) {
  if (!plan.private) return "There is no privacy budget: the run has no guarantee.";
  return `ε spent: ${decimalsUp(epsilon ?? 0, plan.digits)} of ${plan.budget_text}.`;
}

/** Gauge in an svg element. */
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
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/**
 * @typedef {object} Recountable a run whose ε another accountant can compute
 * @property {string} url of the run's ε
 * @property {Record<string, any>} plan from the server
 * @property {Record<string, any>} config
 * @property {Record<string, any>} catalogue
 */

/** Log and plan of a run with the ε of another accountant. */
export class Lens {
  /** @param {Recountable} run @param {Record<string, any>} answer of `run.url` */
  constructor({plan, config, catalogue}, answer) {
    const {curve, ...spent} = answer;
    this.epsilons = new Map(curve.steps.map((step, i) => [step, curve.epsilon[i]]));
    const counted = {...plan, ...spent, curve};
    this.plan = chartPlan(counted, config, catalogue);
    this.terms = terms(counted, catalogue);
    this.accountant = catalogue.accountants[counted.accountant];
    this.seen = new WeakMap();
  }

  /** Pure: a heading with the name of the accountant that computed its ε. */
  named(heading) {
    return `${heading} (ε counted by: ${this.accountant})`;
  }

  /** Copy of a log with the accountant's values of ε. @param {RunLog} log */
  of(log) {
    if (!this.seen.has(log)) this.seen.set(log, this.counted(log));
    return this.seen.get(log);
  }

  counted(log) {
    const other = new RunLog();
    for (const event of log.events) {
      const {epsilon, step} = event.data;
      const data = epsilon === undefined ? event.data : {...event.data, epsilon: this.epsilons.get(step)};
      other.add({...event, data});
    }
    return other;
  }
}

/** Pure: names of the accountants that cover the run's sampling. @param {Recountable} run */
export function offered({plan, catalogue}) {
  return Object.keys(catalogue.claims).filter((name) => plan.accountants.includes(name));
}

/** Control that selects the accountant. */
export class Recount {
  /** @param {HTMLElement} root contains [data-recount] @param {(lens: Lens | null) => void} onLens */
  constructor(root, onLens) {
    this.box = root.querySelector("[data-recount]");
    this.select = root.querySelector("[data-recount-by]");
    this.note = root.querySelector("[data-recount-note]");
    this.onLens = onLens;
    /** @type {Recountable | null} */
    this.run = null;
    this.select.addEventListener("change", () => this.count());
  }

  /** Offer other accountants for a run; null hides the control. @param {Recountable | null} run */
  offer(run) {
    this.box.hidden = run === null;
    if (run === this.run) return;
    this.run = run;
    this.note.textContent = "";
    if (run === null) return;
    const options = offered(run).map((name) => new Option(accountantName(name, run.catalogue), name));
    this.select.replaceChildren(...options);
    this.select.value = run.plan.accountant;
  }

  async count() {
    const {run} = this;
    const accountant = this.select.value;
    const own = accountant === run.plan.accountant;
    try {
      const lens = own ? null : new Lens(run, await getJson(`${run.url}?accountant=${encodeURIComponent(accountant)}`));
      if (run !== this.run || accountant !== this.select.value) return; // the selection changed during the request
      this.note.textContent = own ? "" : `Counted again from the log, not trained again; the run was planned with ${run.catalogue.accountants[run.plan.accountant]}.`;
      this.onLens(lens);
    } catch (error) {
      this.select.value = run.plan.accountant;
      this.note.textContent = error.message;
      this.onLens(null);
    }
  }
}

/**
 * @param {Record<string, any>} run from the API, with its config
 * @param {Record<string, any>} plan
 * @param {Record<string, any>} catalogue
 */
export function trainingContent(run, plan, catalogue) {
  const {config} = run;
  return {
    plan: chartPlan(plan, config, catalogue),
    title: `Run of ${startOf(run.created_at)}`,
    file: `run-${run.id.slice(0, 6)}`,
    terms: terms(plan, catalogue),
    address: new URL(run.links.page, globalThis.location?.href ?? "http://localhost").href,
    config,
    model: config.model,
    twin: config.private ? run.links.twin : null,
    recount: plan.accountant === FILTER ? null : {url: run.links.epsilon, plan, config, catalogue},
  };
}
