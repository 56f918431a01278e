/** Settings as texts: as JSON values, as an address, as places on a slider, and as the presets and sweeps that start from them. */

import {markCurrent} from "../lib/page.js";

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

/** @param {number[]} marks ascending */
export function isLinear(marks) {
  const gaps = marks.slice(1).map((mark, i) => mark - marks[i]);
  return gaps.every((gap) => Math.abs(gap - gaps[0]) < 1e-9 * Math.abs(gaps[0]));
}

/** The value at a position in [0, marks.length - 1], rounded to what a person would type. */
export function valueAt(marks, position, {step = null, whole = false} = {}) {
  const near = Math.round(position);
  if (Math.abs(position - near) < 0.015) return marks[near];
  const low = Math.floor(position);
  const part = position - low;
  const [a, b] = [marks[low], marks[low + 1]];
  if (isLinear(marks)) return nearest(a + part * (b - a), step);
  return round(a * (b / a) ** part, whole);
}

/** Where a value stands on the slider; beyond the last mark it stands at the end. */
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
 * Learning rates of a three-way twin, private, clipped only and ordinary, as texts, and where they come from. A rate
 * that was tuned for another model or data set suits nobody, so a box stays empty where none is known.
 * @param {{ordinary: Record<string, Record<string, number>>, clipped: Record<string, Record<string, number>>}} tuned
 * @param {{model: string, dataset: string, learning_rate: string}} now the form
 */
export function twinRates(tuned, {model, dataset, learning_rate: typed}) {
  const own = Number(typed);
  const isKnown = typed !== "" && Number.isFinite(own);
  const ratio = tuned.clipped[model]?.[dataset];
  const ordinary = tuned.ordinary[model]?.[dataset];
  const written = (value) => String(Number(value.toPrecision(4)));
  const found = [
    ordinary === undefined
      ? "Nobody has tuned ordinary training of this model on these data, so its box is empty: raise its rate as long as the run ends higher."
      : `Ordinary: ${written(ordinary)}, tuned for the recorded twin of this model on these data.`,
    ratio === undefined
      ? "Clipped only: not tuned here, so its box is empty; the private rate is a first try."
      : `Clipped only: ${written(ratio)} times the private rate, as tuned there.`,
  ];
  return {
    values: [isKnown ? written(own) : "", isKnown && ratio !== undefined ? written(own * ratio) : "", ordinary === undefined ? "" : written(ordinary)],
    help: `${found.join(" ")} Other batches or lengths may need other rates.`,
  };
}

/**
 * Values around the present one: the marks of a setting whose marks are equally far
 * apart, else doublings within them; the choices of a setting that has some.
 * @param {Field & {choices: Record<string, string>}} field
 * @param {string} text the present value
 * @param {string[] | null} offered of the choices, null: all
 * @returns {string[]}
 */
export function suggestions({kind, marks, choices}, text, offered = null) {
  if (kind === "choice") return offered ?? Object.keys(choices);
  const value = Number(text);
  const known = text !== "" && Number.isFinite(value);
  if (!known || value <= 0 || (marks.length > 1 && isLinear(marks))) return sorted([...marks, ...(known ? [value] : [])]);
  const low = Math.min(value, marks[0] ?? 0);
  const high = Math.max(value, marks.at(-1) ?? Infinity);
  const around = FACTORS.map((factor) => value * factor).filter((other) => other >= low && other <= high);
  return sorted(around.map((other) => (kind === "integer" ? Math.max(1, Math.round(other)) : Number(other.toPrecision(2)))).concat(value));
}

/** Five seeds from the present one on. */
export function nextSeeds(text) {
  const first = Number.isInteger(Number(text)) && text !== "" ? Number(text) : 1;
  return Array.from({length: SEEDS}, (_, i) => String(first + i));
}

/**
 * The typed values, parted by spaces, semicolons, or commas with a space behind them.
 * A comma within a value stays, so that the server can refuse it in words.
 */
export function typedValues(text) {
  return text.split(/[\s;]+|,\s+/).filter((value) => value !== "");
}

/** One variation for each typed value. @param {Field} field */
export function variations({name, kind}, text) {
  return typedValues(text).map((value) => ({[name]: jsonValue(kind, value)}));
}

function sorted(numbers) {
  return [...new Set(numbers)].sort((a, b) => a - b).map(typed);
}

function typed(number) {
  return number !== 0 && Math.abs(number) < 1e-3 ? number.toExponential().replace("e+", "e") : String(number);
}

export class Presets {
  /**
   * @param {HTMLElement} root holds the [data-preset] links
   * @param {Record<string, Record<string, string>>} settings of each preset
   * @param {(texts: Record<string, string>) => void} choose
   */
  constructor(root, settings, choose) {
    this.settings = settings;
    this.links = [...root.querySelectorAll("[data-preset]")];
    for (const link of this.links) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        choose(settings[link.dataset.preset]);
      });
    }
  }

  /** The preset that these settings are, if they are one. @param {Record<string, string>} texts */
  slugOf(texts) {
    return Object.keys(this.settings).find((slug) => sameSettings(this.settings[slug], texts));
  }

  mark(slug) {
    markCurrent(this.links, (link) => link.dataset.preset === slug);
    const link = this.links.find((one) => one.dataset.preset === slug);
    const row = link?.closest("ul");
    if (row) row.scrollLeft = link.offsetLeft - (row.clientWidth - link.offsetWidth) / 2; // sideways alone
  }
}
