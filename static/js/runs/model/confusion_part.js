/** Test records by what they are and what they are read as. */

import {element} from "../../lib/page.js";
import {integer} from "../../lib/format.js";
import {areWorded, cellLooks, confusionConclusion} from "../../charts/model/confusion.js";
import {Part} from "./part.js";

const MANY = 4; // classes: narrow columns

export class ConfusionPart extends Part {
  constructor(root) {
    super(root, "confusion");
  }

  update({model: {confusion}}, {plan: {labels}, settled}) {
    const looks = cellLooks(confusion);
    const many = labels.length > MANY;
    const worded = many && areWorded(labels);
    const heads = element("tr", {}, element("th", {scope: "col"}, element("span", {class: "visually-hidden"}, "is / read as")), ...labels.map((label) => element("th", {scope: "col"}, label)));
    const lines = confusion.map((row, is) => element("tr", {}, element("th", {scope: "row"}, labels[is]), ...row.map((count, read) => element("td", {class: looks[is][read]}, many ? count : integer(count)))));
    const caption = element("caption", {}, "Test records by true class (row) and by the class that the model reads (column).");
    this.drawing.replaceChildren(element("table", {class: `confusion${many ? " many" : ""}${worded ? " worded" : ""}`}, caption, element("thead", {}, heads), element("tbody", {}, ...lines)));
    this.show({conclusion: confusionConclusion(confusion, labels), settled});
  }
}
