/** A diary of releases, pure: what is entered, what it has spent, what is refused. All numbers are the server's. */

const ADDED = 0;
const TOGETHER = 1;
export const FILTER = 2; // places in a row of the server's table, and ways to keep a diary

/** What a diary of releases has spent: [added up, together, percent of a filter]; undefined beyond the table. */
export function spent(entries, {kinds, spent: table}) {
  return table[kinds.map(({kind}) => entries.filter((one) => one === kind).length).join("")];
}

/** The same after each release, from none on. */
export const history = (entries, data) => Array.from({length: entries.length + 1}, (_, i) => spent(entries.slice(0, i), data));

/** Whether a row keeps the budget, by a way to keep the diary. */
export const isWithin = (row, way, {budget}) => Number(row[way]) <= (way === FILTER ? 100 : budget);

/** Enter a release, or refuse it: then the row that it would lead to comes with the diary as it was. */
export function enter(entries, kind, way, data) {
  const next = [...entries, kind];
  const row = spent(next, data);
  return isWithin(row, way, data) ? {entries: next, refused: null} : {entries, refused: row};
}

/** Totals of the diary. */
export function conclusion(entries, {budget}, row) {
  if (!entries.length) return `Nothing is released yet: all of ε = ${budget} is left`;
  return `${entries.length} release${entries.length > 1 ? "s" : ""}: ε = ${row[TOGETHER]} together, ${row[ADDED]} added up, of a budget of ${budget}`;
}

/** Why a release is refused. */
export function refusal(label, way, row, {budget}) {
  const why = way === FILTER ? `the filter would reach ${row[way]} % of its budget` : `ε would be ${row[way]}, more than ${budget}`;
  return `Rejected: with ${label} ${why}. Nothing is released, and nothing is spent.`;
}

/** What may be promised, by the way that the diary is kept. */
export function promise(entries, way, {budget}, row) {
  if (!entries.length) return "A release is final: no entry can be removed from a diary.";
  if (way === FILTER) return `The promise is ε = ${budget}, the whole budget, whatever you choose next. The filter is at ${row[way]} %.`;
  return `The promise is ε = ${row[way]}, ${way === ADDED ? "each release at its share of δ" : "all releases counted as one"}, if the diary was planned beforehand.`;
}
