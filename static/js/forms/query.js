/** Settings as text: conversions to JSON, addresses and slider positions, and the sweeps of a form. */

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"integer" | "number" | "boolean" | "choice" | "string"} kind
 * @property {number[]} marks of its slider, [] without a slider
 * @property {number | null} step
 * @property {string} switch name of its switch, "" without one
 * @property {boolean} optional if true, its box may be empty
 * @property {string} default
 */

/**
 * Settings to send: the chosen one of two that exclude each other, and no empty boxes of optional settings.
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

/**
 * Defaults to fill in after a choice: of the settings whose default depends on a choice and whose box still has a default.
 * @param {Field[]} fields
 * @param {Record<string, Record<string, Record<string, string>>>} defaultsOf the defaults that values of settings change
 * @param {Record<string, string>} texts
 * @returns {Record<string, string>}
 */
export function defaultsAfter(fields, defaultsOf, texts) {
  const changed = Object.values(defaultsOf).flatMap((byValue) => Object.values(byValue));
  const chosen = Object.entries(defaultsOf).map(([name, byValue]) => byValue[texts[name]] ?? {});
  const depends = fields.filter(({name, default: usual}) => {
    const others = changed.flatMap((defaults) => defaults[name] ?? []);
    return others.length > 0 && [usual, ...others].includes(texts[name]);
  });
  const now = Object.assign({}, ...chosen);
  return Object.fromEntries(depends.map(({name, default: usual}) => [name, now[name] ?? usual]));
}

/** Names of required settings with an empty box. @param {Record<string, string>} texts return value of `given` */
export function missing(texts) {
  return Object.keys(texts).filter((name) => texts[name] === "");
}

/**
 * JSON values of settings; invalid numbers stay text, so that the server reports them.
 * @param {Field[]} fields
 * @param {Record<string, string>} texts return value of `given`
 */
export function toJson(fields, texts) {
  const kinds = Object.fromEntries(fields.map(({name, kind}) => [name, kind]));
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, jsonValue(kinds[name], text)]));
}

/** JSON value of a setting's text; an invalid number stays text. */
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

/** True if two sets of texts are equal as settings: "3" equals "3.0". */
export function sameSettings(a, b) {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => same(a[name], b[name]));
}

function same(a, b) {
  if (a === b) return true;
  return a !== undefined && b !== undefined && a !== "" && b !== "" && Number(a) === Number(b);
}

/** Settings of a run from the API as texts for an address. @param {Record<string, any>} config */
export function asTexts({kind, table, ...config}) {
  return Object.fromEntries(Object.entries(config).flatMap(([name, value]) => (value === null ? [] : [[name, String(value)]])));
}

/** @param {number[]} marks in ascending order */
export function isLinear(marks) {
  const gaps = marks.slice(1).map((mark, i) => mark - marks[i]);
  return gaps.every((gap) => Math.abs(gap - gaps[0]) < 1e-9 * Math.abs(gaps[0]));
}

/** Value at a slider position in [0, marks.length − 1], rounded to few digits. */
export function valueAt(marks, position, {step = null, whole = false} = {}) {
  const near = Math.round(position);
  if (Math.abs(position - near) < 0.015) return marks[near];
  const low = Math.floor(position);
  const part = position - low;
  const [a, b] = [marks[low], marks[low + 1]];
  if (isLinear(marks)) return nearest(a + part * (b - a), step);
  return round(a * (b / a) ** part, whole);
}

/** Slider position of a value; values beyond the last mark are at the end. */
export function positionOf(marks, value) {
  const last = marks.length - 1;
  if (value <= marks[0]) return 0;
  if (value >= marks[last]) return last;
  const low = marks.findLastIndex((mark) => mark <= value);
  const [a, b] = [marks[low], marks[low + 1]];
  return low + (isLinear(marks) ? (value - a) / (b - a) : Math.log(value / a) / Math.log(b / a));
}

function nearest(value, step) {
  return Number((step ? Math.round(value / step) * step : value).toPrecision(6));
}

function round(value, whole) {
  const two = Number(value.toPrecision(2));
  return whole ? Math.max(1, Math.round(two)) : two;
}

const FACTORS = [0.25, 0.5, 1, 2, 4];
const SEEDS = 5;

/**
 * Learning rates of a three-way twin (private, clipped only, ordinary) as texts, with their sources. A rate without
 * tuning for this model and data set stays empty, because rates tuned for others are unsuitable.
 * @param {{ordinary: Record<string, Record<string, number>>, clipped: Record<string, Record<string, number>>}} tuned
 * @param {{model: string, dataset: string, learning_rate: string}} now current settings
 */
export function twinRates(tuned, {model, dataset, learning_rate: typed}) {
  const own = Number(typed);
  const isKnown = typed !== "" && Number.isFinite(own);
  const ratio = tuned.clipped[model]?.[dataset];
  const ordinary = tuned.ordinary[model]?.[dataset];
  const written = (value) => String(Number(value.toPrecision(4)));
  const sentences = [
    ordinary === undefined
      ? "Nobody has tuned ordinary training of this model on these data, so its box is empty: raise its rate as long as the run ends higher."
      : `Ordinary: ${written(ordinary)}, tuned for the recorded twin of this model on these data.`,
    ratio === undefined
      ? "Clipped only: not tuned here, so its box is empty; the private rate is a first try."
      : `Clipped only: ${written(ratio)} times the private rate, as tuned there.`,
  ];
  return {
    values: [isKnown ? written(own) : "", isKnown && ratio !== undefined ? written(own * ratio) : "", ordinary === undefined ? "" : written(ordinary)],
    help: `${sentences.join(" ")} Other batches or lengths may need other rates.`,
  };
}

/**
 * Suggested values around the current one: slider marks if they are evenly spaced, otherwise repeated doublings
 * within their range; for a choice, its options.
 * @param {Field & {choices: Record<string, string>}} field
 * @param {string} text current value
 * @param {string[] | null} offered available options, null: all
 * @returns {string[]}
 */
export function suggestions({kind, marks, choices}, text, offered = null) {
  if (kind === "choice") return offered ?? Object.keys(choices);
  const value = Number(text);
  const isNumber = text !== "" && Number.isFinite(value);
  if (!isNumber || value <= 0 || (marks.length > 1 && isLinear(marks))) return sorted([...marks, ...(isNumber ? [value] : [])]);
  const low = Math.min(value, marks[0] ?? 0);
  const high = Math.max(value, marks.at(-1) ?? Infinity);
  const around = FACTORS.map((factor) => value * factor).filter((other) => other >= low && other <= high);
  return sorted(around.map((other) => (kind === "integer" ? Math.max(1, Math.round(other)) : Number(other.toPrecision(2)))).concat(value));
}

/** Seeds, starting with the current one. */
export function nextSeeds(text, number = SEEDS) {
  const first = Number.isInteger(Number(text)) && text !== "" ? Number(text) : 1;
  return Array.from({length: number}, (_, i) => String(first + i));
}

/**
 * Typed values, separated by spaces, semicolons, or commas with a space after them. A comma inside a value stays, so
 * that the server can report it.
 */
export function typedValues(text) {
  return text.split(/[\s;]+|,\s+/).filter((value) => value !== "");
}

/** One variation per typed value. @param {Field} field */
export function variations({name, kind}, text) {
  return typedValues(text).map((value) => ({[name]: jsonValue(kind, value)}));
}

/** The runs of a sweep, seed by seed: each variation with `number` seeds, starting with the current one. */
export function withSeeds(varied, text, number) {
  return nextSeeds(text, number).flatMap((seed) => varied.map((values) => ({...values, seed: Number(seed)})));
}

function sorted(numbers) {
  return [...new Set(numbers)].sort((a, b) => a - b).map(typed);
}

function typed(number) {
  return number !== 0 && Math.abs(number) < 1e-3 ? number.toExponential().replace("e+", "e") : String(number);
}

/**
 * Error message with the form's labels in place of API values, as `labelled` of web/forms/form.py writes it.
 * @param {Field[]} fields
 * @param {string} message of the server, such as "sampling must be 'poisson'"
 */
export function labelled(fields, message) {
  const labelOf = (name) => fields.find((field) => field.name === name)?.label;
  const [first] = message.split(" ", 1);
  const said = message.slice(first.length);
  const rest = said.startsWith(" must be one of ") ? said : said.replace(/'([\w-]+)'|\b([a-z]+_[a-z_]+)\b/g, (text, value, name) => {
    const labels = name ? [labelOf(name) ?? []].flat() : [...new Set(fields.flatMap(({choices}) => choices?.[value] ?? []))];
    return labels.length === 1 ? `“${labels[0]}”` : text;
  });
  return (labelOf(first) ?? first) + rest;
}
