/** Errors of a model: its confusion matrix, and its errors by class next to the twin's. */

import {decimals, integer, percent} from "../../lib/format.js";
import {element} from "../../lib/page.js";
import {Part, bar} from "./part.js";
import {isFair} from "./seen.js";

const sum = (row) => row.reduce((total, count) => total + count, 0);

/** Class name as text: names of one or two characters as they are, others in quotes. */
export function named(label) {
  return /^\w{1,2}$/.test(label) ? label : `“${label}”`;
}

/** Largest off-diagonal entry of a confusion matrix; null without errors. @param {number[][]} counts */
export function largestConfusion(counts) {
  let largest = null;
  counts.forEach((row, is) => row.forEach((count, read) => {
    if (is !== read && count > (largest?.count ?? 0)) largest = {is, read, count, total: sum(row)};
  }));
  return largest;
}

/** @param {number[][]} counts @param {string[]} labels */
export function confusionConclusion(counts, labels) {
  const most = largestConfusion(counts);
  if (!most) return "No test record is misread";
  const {is, read, count, total} = most;
  return `${integer(count)} of the ${integer(total)} test records that are ${named(labels[is])} are read as ${named(labels[read])}`;
}

/** Style of each cell: "hit", "worst", "miss" (at least two fifths of the largest error), "few" or "zero". */
export function cellLooks(counts) {
  const worst = largestConfusion(counts);
  return counts.map((row, is) => row.map((count, read) => {
    if (is === read) return "hit";
    if (count === 0) return "zero";
    if (worst.is === is && worst.read === read) return "worst";
    return 5 * count >= 2 * worst.count ? "miss" : "few";
  }));
}

const LONGEST = 3; // characters; longer class names need more room than numbers

/** Pure: true if some class names need more room than numbers. @param {string[]} labels */
export function areWorded(labels) {
  return labels.some((label) => label.length > LONGEST);
}

const MANY = 4; // classes, above which the columns are narrow

export class ConfusionPart extends Part {
  constructor(root) {
    super(root, "confusion");
  }

  update({model: {confusion}}, {plan: {labels}}) {
    if (!confusion) return this.hide();
    const looks = cellLooks(confusion);
    const many = labels.length > MANY;
    const worded = many && areWorded(labels);
    const heads = element("tr", {}, element("th", {scope: "col"}, element("span", {class: "visually-hidden"}, "is / read as")), ...labels.map((label) => element("th", {scope: "col"}, label)));
    const lines = confusion.map((row, is) => element("tr", {}, element("th", {scope: "row"}, labels[is]), ...row.map((count, read) => element("td", {class: looks[is][read]}, many ? count : integer(count)))));
    const caption = element("caption", {}, "Test records by true class (row) and by the class that the model reads (column).");
    this.drawing.replaceChildren(element("table", {class: `confusion${many ? " many" : ""}${worded ? " worded" : ""}`}, caption, element("thead", {}, heads), element("tbody", {}, ...lines)));
    this.show({conclusion: confusionConclusion(confusion, labels)});
  }
}

/**
 * @typedef {object} ErrorRow
 * @property {string} part "all", "class" or the attribute of a group
 * @property {string} label
 * @property {number} records
 * @property {number} share of misclassified records, 0 to 1
 * @property {number | null} twin share of the twin, null without a twin
 */

/**
 * @param {Record<string, any>} model data of a `model` event @param {Record<string, any> | null} twin data of the
 *   twin's event @returns {ErrorRow[]}
 */
export function errorRows(model, twin, labels) {
  const own = counted(model, labels);
  const other = twin ? counted(twin, labels) : null;
  return own.map((row, i) => ({part: row.part, label: row.label, records: row.records, share: shareOf(row), twin: other ? shareOf(other[i]) : null}));
}

/** Share of errors; 0 for a group without records. */
const shareOf = ({wrong, records}) => (records ? wrong / records : 0);

function counted({confusion, groups}, labels) {
  const classes = confusion.map((row, i) => {
    const records = row.reduce((sum, count) => sum + count, 0);
    return {part: "class", label: labels[i], records, wrong: records - row[i]};
  });
  const whole = {part: "all", label: "All", records: 0, wrong: 0};
  for (const row of classes) {
    whole.records += row.records;
    whole.wrong += row.wrong;
  }
  const grouped = Object.entries(groups ?? {}).flatMap(([part, values]) =>
    Object.entries(values).map(([label, [records, wrong]]) => ({part, label, records, wrong})));
  return [whole, ...classes, ...grouped];
}

/** Row for the heading: the largest increase of errors over the twin, or the largest share of errors. */
export function hardest(rows) {
  const parts = rows.filter(({part}) => part === "class");
  const weight = rows.every(({twin}) => twin !== null) ? ({share, twin}) => share - twin : ({share}) => share;
  return parts.reduce((most, row) => (weight(row) > weight(most) ? row : most));
}

/** @param {ErrorRow[]} rows @param {boolean} fair if true, the twin differs only in privacy */
export function errorsConclusion(rows, fair = true) {
  const row = hardest(rows);
  const [whole] = rows;
  if (row.twin === null) return `${capital(named(row.label))} is misread most: ${percent(row.share)}, against ${percent(whole.share)} over all classes`;
  const price = 100 * (row.share - row.twin);
  const points = `${decimals(price, 1)} ${decimals(price, 1) === "1.0" ? "point" : "points"}`;
  if (price < 0.05) return "No class is misread more often than by the twin";
  return `${capital(named(row.label))} ${fair ? "pays most for privacy" : "is furthest behind the twin"}: ${points}`;
}

function capital(name) {
  return /^\w/.test(name) ? `The ${name}` : name;
}

export class ErrorsPart extends Part {
  constructor(root) {
    super(root, "errors");
  }

  update({model}, {plan, twin}) {
    if (!model.confusion) return this.hide();
    const other = twin?.model?.confusion.length === model.confusion.length ? twin.model : null;
    const rows = errorRows(model, other, plan.labels);
    const most = Math.max(...rows.map(({share, twin: mark}) => Math.max(share, mark ?? 0))) || 1;
    const hard = hardest(rows);
    const heads = [model.groups ? "Class or group" : "Class", "Bar", "records", plan.private ? "private" : "misread", ...(other ? ["twin"] : [])];
    const head = element("tr", {}, ...heads.map((text, i) => element("th", {scope: "col", class: i > 1 ? "n" : ""}, i === 1 ? element("span", {class: "visually-hidden"}, text) : text)));
    const lines = rows.map((row) => element("tr", {class: row === hard ? "most" : ""},
      element("th", {scope: "row"}, nameOf(row)),
      element("td", {}, bar({value: row.share / most, mark: row.twin === null ? null : row.twin / most})),
      element("td", {class: "n muted"}, integer(row.records)),
      element("td", {class: "n"}, percent(row.share)),
      ...(other ? [element("td", {class: "n"}, percent(row.twin))] : [])));
    const table = element("table", {class: plan.labels.length > 4 && !areWorded(plan.labels) ? "bars" : "bars wide-names"}, element("thead", {}, head), element("tbody", {}, ...lines));
    this.drawing.replaceChildren(table);
    this.show({conclusion: errorsConclusion(rows, !other || isFair(twin, model.step)), sub: `Test records read wrongly, % of each class${model.groups ? " and group" : ""}${other ? `: the bar is this model, the stroke its twin. ${twin.note}` : ""}`});
  }
}

function nameOf({part, label}) {
  return part === "all" || part === "class" ? label : `${part}: ${label}`;
}
