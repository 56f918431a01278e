/** Settings as typed text, as JSON values, and as the address. */

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"integer" | "number" | "boolean" | "choice" | "string"} kind
 * @property {number[]} marks of its slider, [] if it has none
 * @property {number | null} step
 * @property {string} switch name of the switch it hangs on, "" if none
 * @property {boolean} optional its box may be empty
 * @property {string} default
 */

/**
 * What counts of what was typed: of two settings that exclude each other the chosen one,
 * and an empty box only where there must be something in it.
 * @param {Field[]} fields
 * @param {Record<string, string>} texts
 * @param {Record<string, string>} chosen member of each switch
 * @returns {Record<string, string>}
 */
export function given(fields, texts, chosen) {
  const counts = fields.filter(
    (field) => !(field.optional && texts[field.name] === "") && (field.switch === "" || chosen[field.switch] === field.name),
  );
  return Object.fromEntries(counts.map(({name}) => [name, texts[name]]));
}

/** The settings whose box is empty and must not be. @param {Record<string, string>} texts as `given` returns them */
export function missing(texts) {
  return Object.keys(texts).filter((name) => texts[name] === "");
}

/**
 * JSON values; text that is no number stays text, so that the server can say so.
 * @param {Field[]} fields
 * @param {Record<string, string>} texts as `given` returns them
 */
export function toJson(fields, texts) {
  const kinds = Object.fromEntries(fields.map(({name, kind}) => [name, kind]));
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, jsonValue(kinds[name], text)]));
}

/** What a text of a setting of this kind means; one that is no number stays text. */
export function jsonValue(kind, text) {
  if (kind === "boolean") return text === "true";
  if (kind === "choice" || kind === "string") return text;
  const number = Number(text);
  return text !== "" && Number.isFinite(number) ? number : text;
}

/** @param {Record<string, string>} texts */
export function toQuery(texts) {
  return new URLSearchParams(texts).toString();
}

/** Whether two sets of texts mean the same: "3" is "3.0". */
export function sameSettings(a, b) {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => same(a[name], b[name]));
}

function same(a, b) {
  if (a === b) return true;
  return a !== undefined && b !== undefined && a !== "" && b !== "" && Number(a) === Number(b);
}

/** The settings of a run, as the API shows them, as the address carries them @param {Record<string, any>} config */
export function asTexts({kind, table, ...config}) {
  return Object.fromEntries(Object.entries(config).flatMap(([name, value]) => (value === null ? [] : [[name, String(value)]])));
}
