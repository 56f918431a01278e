/** The weights of a table, the largest as bars, all as a table. */

import {element} from "../../lib/page.js";
import {changeText, featureWeights, featuresConclusion} from "../../charts/model/feature_weights.js";
import {Part} from "./part.js";
import {bar} from "./bar.js";

const SHOWN = 14;

export class FeaturesPart extends Part {
  constructor(root) {
    super(root, "features");
  }

  update({features, change, layer}, {plan, twin, settled}) {
    if (!features || !change) return this.hide();
    const rows = featureWeights(change, features, layer.classes);
    const other = twin?.change?.length === change.length ? byName(featureWeights(twin.change, features, layer.classes)) : null;
    this.draw(rows.slice(0, SHOWN), other, plan.labels);
    this.show({
      conclusion: featuresConclusion(rows, plan.labels),
      sub: `Change of each weight since the start${layer.classes === 2 ? `, “${plan.labels[1]}” less “${plan.labels[0]}”` : ""}; ${features.length > SHOWN ? `the ${SHOWN} of ${features.length} columns with the largest changes` : "all columns, largest change first"}`,
      settled,
      table: () => table(rows, other, plan.labels),
    });
  }

  draw(rows, other, labels) {
    const most = Math.max(...rows.map(({name, change}) => Math.max(Math.abs(change), Math.abs(other?.get(name) ?? 0)))) || 1;
    const lines = rows.map(({name, change, class: speaks}) => element("tr", {},
      element("th", {scope: "row"}, name, labels.length > 2 ? ` → ${labels[speaks]}` : ""),
      element("td", {class: "both-ways"}, bar({value: change / most, mark: other ? other.get(name) / most : null, signed: true})),
      element("td", {class: "n"}, changeText(change)),
      ...(other ? [element("td", {class: "n"}, changeText(other.get(name)))] : [])));
    const heads = element("tr", {}, element("th", {scope: "col"}, "Column"), element("th", {scope: "col"}, element("span", {class: "visually-hidden"}, "Bar")), element("th", {scope: "col", class: "n"}, "change"), ...(other ? [element("th", {scope: "col", class: "n"}, "twin")] : []));
    this.drawing.replaceChildren(element("table", {class: "bars wide-names"}, element("thead", {}, heads), element("tbody", {}, ...lines)));
  }
}

const byName = (rows) => new Map(rows.map(({name, change}) => [name, change]));

function table(rows, other, labels) {
  return {
    caption: "All columns, largest change first",
    heads: ["Column", ...(labels.length > 2 ? ["counts for"] : []), "change", ...(other ? ["twin"] : [])],
    rows: rows.map(({name, change, class: speaks}) => [name, ...(labels.length > 2 ? [labels[speaks]] : []), changeText(change), ...(other ? [changeText(other.get(name))] : [])]),
    words: labels.length > 2 ? [0, 1] : [0],
  };
}
