/** Texts that a language model writes: before the training, now, and by its twin. */

import {integer} from "../../lib/format.js";
import {element} from "../../lib/page.js";
import {Part} from "./part.js";

/** Pure: texts under a heading each. @returns {{title: string, texts: string[]}[]} */
export function textRows({model, firstTexts}, twin, isPrivate) {
  const rows = [{title: "Before: public weights", texts: firstTexts}, {title: `After step ${integer(model.step)}: ${isPrivate ? "private" : "not private"}`, texts: model.texts}];
  if (twin?.model?.texts) rows.push({title: "Twin: not private", texts: twin.model.texts});
  return rows;
}

export class TextsPart extends Part {
  constructor(root) {
    super(root, "texts");
  }

  /** @param {import("./seen.js").SeenModel} seen @param {object} about plan and twin of the run */
  update(seen, {plan, twin}) {
    if (!seen.model.texts || !seen.firstTexts) return this.hide();
    const items = (texts) => texts.map((text) => element("li", {}, text));
    const rows = textRows(seen, twin, plan.private).map(({title, texts}) => element("div", {}, element("h4", {}, title), element("ul", {class: "written"}, ...items(texts))));
    this.drawing.replaceChildren(...rows);
    this.show({conclusion: "Sentences that the model writes", sub: "Written character by character, with the same random numbers each time"});
  }
}
