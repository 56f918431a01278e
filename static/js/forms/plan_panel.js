/** What the settings will spend, wherever the page says it. */

import {exponential, integer, roundUp, significant} from "../lib/format.js";

const NONE = "–";

/** How each value of the plan is printed; noise rounded up: what is typed in spends no more. */
export const TEXTS = {
  epsilon: (plan) => plan.epsilon_text,
  delta: (plan) => exponential(plan.delta),
  noise_multiplier: (plan) => (plan.private ? `${plan.noise_is_bound ? "≤ " : ""}${noiseText(plan)}` : "0"),
  sample_rate: (plan) => significant(plan.sample_rate),
  steps: (plan) => integer(plan.steps),
  epochs: (plan) => significant(plan.epochs),
};

const RELATIONS = {add_or_remove_one: "add or remove one record"};

/** σ, of the first and the last step where they differ. */
function noiseText({noise_multiplier: first, last_noise_multiplier: last = first}) {
  return first === last ? roundUp(first, 3) : `${roundUp(first, 3)} to ${roundUp(last, 3)}`;
}

export class PlanPanel {
  /** @param {HTMLElement} root holds [data-plan], [data-truth], [data-when], [data-note] */
  constructor(root, catalogue) {
    this.root = root;
    this.catalogue = catalogue;
  }

  /** @param {Record<string, any> | null} plan null: the settings are not in order */
  show(plan) {
    for (const cell of this.root.querySelectorAll("[data-plan]")) {
      const write = TEXTS[cell.dataset.plan];
      cell.textContent = plan ? (write?.(plan) ?? this.catalogue.accountants[plan.accountant]) : NONE;
    }
    showTruth(this.root, plan);
  }

  note(name, text) {
    this.root.querySelector(`[data-note="${name}"]`).textContent = text;
  }
}

/** Say what kind of truth the epsilons in `root` are. */
export function showTruth(root, plan) {
  for (const badge of root.querySelectorAll("[data-truth]")) {
    badge.hidden = plan === null;
    badge.className = `badge ${plan?.private ? plan.status : "not-private"}`;
    badge.textContent = plan?.private ? claim(plan) : "not private";
  }
  for (const words of root.querySelectorAll("[data-when]")) {
    words.hidden = words.dataset.when !== whenOf(plan);
  }
}

/** What kind of truth an ε is, in words. */
function claim({accountant, status}) {
  return accountant === "filter" ? `${status} (filter)` : status;
}

function whenOf(plan) {
  if (plan === null) return "unknown";
  return plan.private ? "private" : "open";
}

/** What an epsilon of this plan is to be read with. */
export function terms(plan, catalogue) {
  if (!plan.private) return "No noise: there is no guarantee.";
  const relation = RELATIONS[plan.neighboring_relation];
  const label = catalogue.accountants[plan.accountant];
  const claim = sameWord(label, plan.status) ? "" : `, ${plan.status}`;
  return `ε at δ = ${exponential(plan.delta)}, ${relation}, Poisson sampling; accountant: ${label}${claim}`;
}

/** An accountant and what its numbers are, said once where its name says it. */
export function accountantName(name, {accountants, claims}) {
  const label = accountants[name];
  return sameWord(label, claims[name]) ? label : `${label}: ${claims[name]}`;
}

function sameWord(a, b) {
  return a.toLowerCase() === b.toLowerCase();
}
