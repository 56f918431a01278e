/** Values that a sweep starts from, and how typed ones are read. */

import {isLinear} from "../forms/slider.js";
import {jsonValue} from "../forms/query.js";

const FACTORS = [0.25, 0.5, 1, 2, 4];
const SEEDS = 5;

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
