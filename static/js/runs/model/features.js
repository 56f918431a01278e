/** Features of a linear model, by weight. */

import {decimals} from "../../lib/format.js";
import {element} from "../../lib/page.js";
import {Part, bar} from "./part.js";

/**
 * @typedef {object} FeatureWeight
 * @property {string} name of the column
 * @property {number} change of its weight since the start, relative to the other classes
 * @property {number} for index of the class that the feature favours
 */

/**
 * All columns, largest change first. With two classes, the change is the difference of the two classes' weights,
 * second minus first; with more classes, it belongs to the class with the largest distance from the mean over
 * classes.
 * @returns {FeatureWeight[]}
 */
export function featureWeights(change, names, classes) {
  const rows = names.map((name, i) => {
    const column = Array.from({length: classes}, (_, c) => change[c * names.length + i]);
    if (classes === 2) return {name, change: column[1] - column[0], class: 1};
    const mean = column.reduce((sum, value) => sum + value, 0) / classes;
    const most = column.reduce((best, value, c) => (Math.abs(value - mean) > Math.abs(column[best] - mean) ? c : best), 0);
    return {name, change: column[most] - mean, class: most};
  });
  return rows.sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
}

/** @param {FeatureWeight[]} rows @param {string[]} labels */
export function featuresConclusion(rows, labels) {
  const forIt = rows.find((row) => row.change > 0);
  const against = rows.find((row) => row.change < 0);
  if (!forIt && !against) return "No weight has moved yet";
  if (!forIt || !against || labels.length > 2) return `“${rows[0].name}” counts most ${rows[0].change > 0 ? "for" : "against"} “${labels[rows[0].class]}”`;
  return `“${forIt.name}” counts most for “${labels[1]}”, “${against.name}” most against it`;
}

const changeText = (value) => decimals(value);

const SHOWN = 14;

export class FeaturesPart extends Part {
  constructor(root) {
    super(root, "features");
  }

  update({features, change, layer}, {plan, twin}) {
    if (!features || !change) return this.hide();
    const rows = featureWeights(change, features, layer.classes);
    const other = twin?.change?.length === change.length ? byName(featureWeights(twin.change, features, layer.classes)) : null;
    this.draw(rows.slice(0, SHOWN), other, plan.labels);
    this.show({
      conclusion: featuresConclusion(rows, plan.labels),
      sub: `Change of each weight since the start${layer.classes === 2 ? `, “${plan.labels[1]}” less “${plan.labels[0]}”` : ""}; ${features.length > SHOWN ? `the ${SHOWN} of ${features.length} columns with the largest changes` : "all columns, largest change first"}`,
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
