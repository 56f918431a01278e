/** A finished run's ε as another accountant counts it: asked for, never computed here. */

import {chartPlan} from "../../charts/plan.js";
import {getJson} from "../../lib/api.js";
import {accountantName, terms} from "../../forms/plan_panel.js";
import {RunLog} from "../log/run_log.js";

/**
 * @typedef {object} Recountable what can be counted anew
 * @property {string} url of the run's epsilon
 * @property {Record<string, any>} plan as the server answered
 * @property {Record<string, any>} config
 * @property {Record<string, any>} catalogue
 */

/** How a log and its plan look when somebody else counts. */
export class Lens {
  /** @param {Recountable} run @param {Record<string, any>} answer of `run.url` */
  constructor({plan, config, catalogue}, answer) {
    const {curve, ...spent} = answer;
    this.epsilons = new Map(curve.steps.map((step, i) => [step, curve.epsilon[i]]));
    const counted = {...plan, ...spent, curve};
    const open = {...config, target_epsilon: null, stop_at_epsilon: null};
    this.plan = {...chartPlan(counted, open, catalogue), budget_word: "spent"};
    this.terms = terms(counted, catalogue);
    this.accountant = catalogue.accountants[counted.accountant];
    this.seen = new WeakMap();
  }

  /** Pure: a heading whose ε this accountant counted, with its name. */
  named(heading) {
    return `${heading} (ε counted by: ${this.accountant})`;
  }

  /** The same log with every epsilon replaced. @param {RunLog} log */
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

/** The control that chooses who counts. */
export class Recount {
  /** @param {HTMLElement} root holds [data-recount] @param {(lens: Lens | null) => void} onLens */
  constructor(root, onLens) {
    this.box = root.querySelector("[data-recount]");
    this.select = root.querySelector("[data-recount-by]");
    this.note = root.querySelector("[data-recount-note]");
    this.onLens = onLens;
    /** @type {Recountable | null} */
    this.run = null;
    this.select.addEventListener("change", () => this.count());
  }

  /** Offer another count of this run, or of none. @param {Recountable | null} run */
  offer(run) {
    this.box.hidden = run === null;
    if (run === this.run) return;
    this.run = run;
    this.note.textContent = "";
    if (run === null) return;
    const options = Object.keys(run.catalogue.claims).map((name) => new Option(accountantName(name, run.catalogue), name));
    this.select.replaceChildren(...options);
    this.select.value = run.plan.accountant;
  }

  async count() {
    const {run} = this;
    const accountant = this.select.value;
    const own = accountant === run.plan.accountant;
    try {
      const lens = own ? null : new Lens(run, await getJson(`${run.url}?accountant=${encodeURIComponent(accountant)}`));
      if (run !== this.run || accountant !== this.select.value) return; // another was chosen meanwhile
      this.note.textContent = own ? "" : `Counted again from the log, not trained again; the run was planned with ${run.catalogue.accountants[run.plan.accountant]}.`;
      this.onLens(lens);
    } catch (error) {
      this.select.value = run.plan.accountant;
      this.note.textContent = error.message;
      this.onLens(null);
    }
  }
}
