/** The run without privacy that a private run is shown beside: the recorded one, until the visitor chooses another. */

import {getJson} from "../../lib/api.js";
import {percent} from "../../lib/format.js";
import {accuracyOf, partsOf} from "./seen.js";

/** Whether two models differ by privacy alone: the same start and batches, equally many steps, and a tuned rate. */
export function isFair(twin, step) {
  return twin.sharesBatches && twin.isTuned && twin.model.step === step;
}

/** Pure: the twins that can be chosen, as [id, words]; the recorded one, or none, has no id. */
export function options({choices, source}) {
  if (choices.length === 0) return [];
  const own = choices.map(({id, name, learning_rate: rate}) => [id, `your run “${name}”, learning rate ${rate}`]);
  return [["", source === "none" ? "no twin: none is recorded" : "the recorded twin, at its tuned rate"], ...own];
}

export class Twin {
  /** @param {() => void} onFound */
  constructor(onFound) {
    this.onFound = onFound;
    this.url = null;
    this.own = "";
    this.found = null;
    /** @type {[string, string][]} */
    this.options = [];
  }

  /** The twin of the run whose twin is at this address; null while it is not known, or if there is none. */
  of(url) {
    if (url !== this.url) {
      Object.assign(this, {url, own: "", found: null, options: []});
      if (url) this.ask(url);
    }
    return this.found;
  }

  /** Show another one: a run of the visitor's by its id, "" for the recorded one. */
  choose(own) {
    Object.assign(this, {own, found: null});
    this.ask(this.url);
  }

  async ask(url) {
    const {own} = this;
    const answer = await getJson(own ? `${url}?own=${own}` : url).catch(() => null);
    if (url !== this.url || own !== this.own || !answer) return;
    if (!own) this.options = options(answer);
    const model = answer.models.at(-1);
    this.found = model ? {
      ...partsOf(answer.models), model, note: answer.note, page: answer.page, title: answer.title,
      sharesBatches: answer.shares_batches, isTuned: answer.is_tuned, reached: percent(accuracyOf(model)),
    } : null;
    this.onFound();
  }
}
