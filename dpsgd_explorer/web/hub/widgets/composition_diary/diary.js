/** Diary of releases: entries, spent privacy, and rejected releases. Pure functions; the server computed all numbers. */

const ADDED = 0;
const TOGETHER = 1;
export const FILTER = 2; // indices in a row of the server's table, also the modes of the diary

/**
 * Privacy spent by releases: [sum of ε, ε of the composition, percent of a filter]; undefined beyond the server's
 * table.
 */
export function spent(entries, {kinds, spent: table}) {
  return table[kinds.map(({kind}) => entries.filter((entry) => entry === kind).length).join("")];
}

/** Privacy spent after each release, starting with no release. */
export const history = (entries, data) => Array.from({length: entries.length + 1}, (_, i) => spent(entries.slice(0, i), data));

/** True if a row is within the budget, in a mode of the diary. */
export const isWithin = (row, way, {budget}) => Number(row[way]) <= (way === FILTER ? 100 : budget);

/** Add a release, or reject it: then the result has the unchanged diary and the row that the release would lead to. */
export function enter(entries, kind, way, data) {
  const next = [...entries, kind];
  const row = spent(next, data);
  return isWithin(row, way, data) ? {entries: next, refused: null} : {entries, refused: row};
}

/** Heading with the totals. */
export function conclusion(entries, {budget}, row) {
  if (!entries.length) return `Nothing is released yet: all of ε = ${budget} is left`;
  return `${entries.length} release${entries.length > 1 ? "s" : ""}: ε = ${row[TOGETHER]} together, ${row[ADDED]} added up, of a budget of ${budget}`;
}

/** Message about a rejected release. */
export function refusal(label, way, row, {budget}) {
  const why = way === FILTER ? `the filter would reach ${row[way]} % of its budget` : `ε would be ${row[way]}, more than ${budget}`;
  return `Rejected: with ${label} ${why}. Nothing is released, and nothing is spent.`;
}

/** Guarantee in the diary's mode. */
export function promise(entries, way, {budget}, row) {
  if (!entries.length) return "A release is final: no entry can be removed from a diary.";
  if (way === FILTER) return `The promise is ε = ${budget}, the whole budget, whatever you choose next. The filter is at ${row[way]} %.`;
  return `The promise is ε = ${row[way]}, ${way === ADDED ? "each release at its share of δ" : "all releases counted as one"}, if the diary was planned beforehand.`;
}
