/** Values that a sweep starts from, and how typed ones are read. */

import {isLinear} from "../forms/slider.js";
import {jsonValue} from "../forms/query.js";

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
 * @param {import("../forms/query.js").Field & {choices: Record<string, string>}} field
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

/** One variation for each typed value. @param {import("../forms/query.js").Field} field */
export function variations({name, kind}, text) {
  return typedValues(text).map((value) => ({[name]: jsonValue(kind, value)}));
}

function sorted(numbers) {
  return [...new Set(numbers)].sort((a, b) => a - b).map(typed);
}

function typed(number) {
  return number !== 0 && Math.abs(number) < 1e-3 ? number.toExponential().replace("e+", "e") : String(number);
}
