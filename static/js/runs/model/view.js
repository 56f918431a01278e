/** View of a run's model at the current position of its log: weights, confusions, errors, pictures. */

import {integer} from "../../lib/format.js";
import {onLookChange} from "../../lib/page.js";
import {ConfusionPart, ErrorsPart} from "./errors.js";
import {DrawPart} from "./draw_part.js";
import {FeaturesPart} from "./features.js";
import {Twin, seenModel, speedText} from "./seen.js";
import {SidesPart} from "./sides.js";
import {TextsPart} from "./texts.js";
import {WeightsPart} from "./weights.js";

export class ModelView {
  /** @param {HTMLElement} root the [data-model] of a panel */
  constructor(root) {
    this.root = root;
    this.parts = [new TextsPart(root), new WeightsPart(root), new FeaturesPart(root), new SidesPart(root), new ConfusionPart(root), new ErrorsPart(root), new DrawPart(root)];
    this.heading = root.querySelector("[data-model-heading]");
    this.place = root.querySelector("[data-model-place]");
    this.measured = document.querySelectorAll("[data-measured]");
    this.terms = [...root.querySelectorAll("[data-model-terms]")];
    this.twin = new Twin(() => this.paint());
    this.named = Object.fromEntries(["twin", "twin-note", "twin-page", "twin-choice"].map((name) => [name, root.querySelector(`[data-${name}]`)]));
    this.named["twin-choice"].addEventListener("change", ({target}) => this.twin.choose(target.value));
    this.view = null;
    onLookChange([], () => this.paint());
  }

  /**
   * @param {object} view
   * @param {import("../log/run_log.js").RunLog} view.log up to the shown position
   * @param {import("../log/run_log.js").RunLog} view.whole the whole log, as far as it is known
   * @param {import("../../charts/plan.js").Plan} view.plan
   * @param {string} view.model name of the model in the catalogue
   * @param {string | null} view.twin address of its twin; null without a twin
   */
  update(view) {
    const isSame = this.view?.twin === view.twin && this.view.log.models.length === view.log.models.length && this.view.log.isFinal === view.log.isFinal;
    this.view = view;
    if (!isSame || view.log.models.at(-1) !== this.last) this.paint();
  }

  paint() {
    if (!this.view) return;
    const {log, whole, plan, model} = this.view;
    const seen = seenModel(log, plan);
    this.last = log.models.at(-1);
    this.root.hidden = !seen;
    if (!seen) return;
    const twin = this.twin.of(this.view.twin);
    this.heading.textContent = `The model after step ${integer(seen.model.step)}`;
    this.place.textContent = `${seen.reached} of the ${seen.model.texts ? "next characters predicted" : "test records read"} rightly`;
    const terms = plan.private ? "private" : "open";
    this.nameTwin(twin);
    for (const words of this.terms) words.hidden = words.dataset.modelTerms !== terms;
    for (const element of this.measured) element.textContent = speedText(whole);
    for (const part of this.parts) part.update(seen, {plan, model, twin, whole, settled: whole.isFinal});
  }

  /** Show the twin with its learning rate, and the choice of other twins. */
  nameTwin(twin) {
    const {twin: place, "twin-note": note, "twin-page": page, "twin-choice": choice} = this.named;
    const {options, own} = this.twin;
    place.hidden = !twin && options.length === 0;
    note.textContent = twin?.note ?? "";
    page.hidden = !twin?.page;
    if (twin?.page) page.href = twin.page;
    choice.parentElement.hidden = options.length === 0;
    if (choice.options.length !== options.length) choice.replaceChildren(...options.map(([id, words]) => new Option(words, id)));
    choice.value = own;
  }
}
