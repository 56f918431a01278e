/** How many guesses came close, kept in this browser. */

const KEY = "guesses";
const CLOSE = 0.1; // largest distance from the truth, as a share of it

/** Pure: true if a guess is within a tenth of the truth. */
export const isClose = (guess, truth) => Math.abs(guess - truth) <= CLOSE * Math.abs(truth) + 1e-9;

/** Pure: {name: true if close} from stored text; other content counts as none. */
export function parseGuesses(text) {
  try {
    const stored = JSON.parse(text ?? "{}");
    if (stored === null || typeof stored !== "object" || Array.isArray(stored)) return {};
    return Object.fromEntries(Object.entries(stored).filter(([, close]) => typeof close === "boolean"));
  } catch {
    return {};
  }
}

let memory = {}; // without storage the score lasts as long as the page

function read() {
  try {
    return parseGuesses(localStorage.getItem(KEY));
  } catch {
    return memory;
  }
}

/** Store a guess; the first one of a name stays. */
export function record(name, guess, truth) {
  const guesses = {[name]: isClose(guess, truth), ...read()};
  memory = guesses;
  try {
    localStorage.setItem(KEY, JSON.stringify(guesses));
  } catch {
    // storage is blocked
  }
}

/** @returns {{close: number, all: number}} */
export function countsOf() {
  const values = Object.values(read());
  return {close: values.filter(Boolean).length, all: values.length};
}

/** Forget all guesses. */
export function eraseGuesses() {
  memory = {};
  try {
    localStorage.removeItem(KEY);
  } catch {
    // storage is blocked
  }
}
