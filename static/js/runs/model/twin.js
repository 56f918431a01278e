/** The run without privacy that a private run is shown beside. */

import {getJson} from "../../lib/api.js";
import {percent} from "../../lib/format.js";
import {accuracyOf, partsOf} from "./seen.js";

/** Whether two models differ by privacy alone: the same start and batches, equally many steps. */
export function isFair(twin, step) {
  return twin.sharesBatches && twin.model.step === step;
}

export class Twin {
  /** @param {() => void} onFound */
  constructor(onFound) {
    this.onFound = onFound;
    this.url = null;
    this.found = null;
  }

  /** The twin of the run whose twin is at this address; null while it is not known, or if there is none. */
  of(url) {
    if (url !== this.url) {
      this.url = url;
      this.found = null;
      if (url) this.ask(url);
    }
    return this.found;
  }

  async ask(url) {
    const answer = await getJson(url).catch(() => null);
    if (url !== this.url || !answer?.models?.length) return;
    const model = answer.models.at(-1);
    this.found = {...partsOf(answer.models), model, note: answer.note, sharesBatches: answer.shares_batches, title: answer.title, reached: percent(accuracyOf(model))};
    this.onFound();
  }
}
