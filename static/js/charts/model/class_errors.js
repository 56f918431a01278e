/** What share of each class or group is misread, beside the whole. Pure. */

import {percent} from "../../lib/format.js";
import {named} from "./confusion.js";

/**
 * @typedef {object} ErrorRow
 * @property {string} part "all", "class" or the attribute of the group
 * @property {string} label
 * @property {number} records
 * @property {number} share misread, 0 to 1
 * @property {number | null} twin the same of the twin, null without one
 */

/** @param {Record<string, any>} model data of a `model` event @param {Record<string, any> | null} twin the same of a twin @returns {ErrorRow[]} */
export function errorRows(model, twin, labels) {
  const own = counted(model, labels);
  const other = twin ? counted(twin, labels) : null;
  return own.map((row, i) => ({part: row.part, label: row.label, records: row.records, share: shareOf(row), twin: other ? shareOf(other[i]) : null}));
}

/** Of nobody nobody is misread. */
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

/** The row that a heading is about: who pays most for privacy, or who is misread most. */
export function hardest(rows) {
  const parts = rows.filter(({part}) => part === "class");
  const weight = rows.every(({twin}) => twin !== null) ? ({share, twin}) => share - twin : ({share}) => share;
  return parts.reduce((most, row) => (weight(row) > weight(most) ? row : most));
}

/** @param {ErrorRow[]} rows @param {boolean} fair whether the twin differs by privacy alone */
export function errorsConclusion(rows, fair = true) {
  const row = hardest(rows);
  const [whole] = rows;
  if (row.twin === null) return `${capital(named(row.label))} is misread most: ${percent(row.share)}, against ${percent(whole.share)} over all classes`;
  const price = 100 * (row.share - row.twin);
  const points = `${price.toFixed(1)} ${price.toFixed(1) === "1.0" ? "point" : "points"}`;
  if (price < 0.05) return "No class is misread more often than by the twin";
  return `${capital(named(row.label))} ${fair ? "pays most for privacy" : "is furthest behind the twin"}: ${points}`;
}

function capital(name) {
  return /^\w/.test(name) ? `The ${name}` : name;
}
