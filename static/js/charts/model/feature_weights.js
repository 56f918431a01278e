/** The weights of a linear model on a table, by the columns' names. Pure. */

import {decimals} from "../../lib/format.js";

/**
 * @typedef {object} FeatureWeight
 * @property {string} name of the column
 * @property {number} change of its weight for a class, beside the other classes, since the start
 * @property {number} for the class it speaks for
 */

/**
 * Every column, the one that has moved most first. With two classes its change is that of the difference of
 * their weights, the second's less the first's; with more, that of the class that has moved most from their mean.
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

export const changeText = (value) => decimals(value);
