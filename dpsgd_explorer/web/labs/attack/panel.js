/** Status bar of one attack, and its results, which the server draws. */

import {percent, startOf} from "../../../../static/js/lib/format.js";
import {BasePanel} from "../../../../static/js/runs/panel/base_panel.js";

const BEFORE = "The figures appear after the last model has been trained.";
const FAILED = "The server did not answer with the figures; open the run to see them.";

export class AttackPanel extends BasePanel {
  /** @param {HTMLElement} root */
  constructor(root) {
    super(root, reached);
    this.wanted = ""; // address of the run whose results are loading or shown
  }

  /** Show a run; clears the figures of another run. @param {Record<string, any>} content `address`: the run's page */
  show(content) {
    if (!content.isShown) this.say(BEFORE);
    super.show(content);
  }

  paint() {
    const {log, address, isShown} = this.content;
    const stands = isShown && this.results.hasAttribute("data-complete");
    if (log?.state !== "done" || this.wanted === address || stands) return;
    this.wanted = address;
    this.put(address);
  }

  get results() {
    return this.root.querySelector("[data-results]");
  }

  /** Load the results of an ended run and show them. */
  async put(address) {
    const response = await fetch(address).catch(() => null);
    if (this.wanted !== address) return; // another run was started during the request
    if (!response?.ok) {
      this.say(FAILED);
      return;
    }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (this.wanted === address) this.results.replaceWith(page.querySelector("[data-results]"));
  }

  say(text) {
    this.wanted = "";
    this.results.removeAttribute("data-complete");
    this.results.replaceChildren(Object.assign(document.createElement("p"), {className: "small muted", textContent: text}));
  }
}

/**
 * @param {Record<string, any>} run from the API @param {Record<string, any>} plan @param {boolean} isShown if true,
 *   the page already has its results
 */
export function attackContent(run, plan, isShown) {
  return {
    plan: {...plan, steps: run.steps, last_step: run.steps},
    title: `Attack of ${startOf(run.created_at)}`,
    file: `attack-${run.id.slice(0, 6)}`,
    address: run.links.page,
    hasNoReplay: true, // there are no results before the last model
    isShown,
  };
}

/** Cells of the status bar in addition to the state. */
function reached(log) {
  const last = log?.steps.at(-1);
  if (!last) return {model: "–", accuracy: "–"};
  const which = last.private ? "private" : "ordinary";
  return {model: last.shadow === 0 ? `${which} target` : `${which} shadow ${last.shadow}`, accuracy: percent(last.test_accuracy)};
}
