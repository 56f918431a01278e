/** Guesses of this browser: {loop: guess}; "" if the bug was shown without a guess. */

export const ANOTHER_LINE = "another line"; // guess by a line that is not faulty
const KEY = "find-the-bug";

/** Pure: guesses from stored text, limited to existing loops. @param {string | null} text @param {string[]} names */
export function parse(text, names) {
  let stored = null;
  try {
    stored = JSON.parse(text ?? "{}");
  } catch {
    return {};
  }
  if (stored === null || typeof stored !== "object" || Array.isArray(stored)) return {};
  const isKnown = ([name, said]) => names.includes(name) && ["", ANOTHER_LINE, ...names].includes(said);
  return Object.fromEntries(Object.entries(stored).filter(isKnown));
}

/** Pure: score as text. @param {Record<string, string>} guesses @param {string[]} names @param {string} honest */
export function words(guesses, names, honest) {
  const bugs = names.filter((name) => name !== honest);
  const bugsFound = bugs.filter((name) => guesses[name] === name).length;
  const tried = Object.keys(guesses).length;
  if (tried === 0) return "";
  const alarm = guesses[honest] && guesses[honest] !== honest ? ", and one false alarm" : "";
  return `${bugsFound} of ${bugs.length} bugs found${alarm}; ${tried} of ${names.length} loops done.`;
}

/** Pure: mark of a loop. */
export function mark(guesses, name) {
  if (!(name in guesses)) return "";
  return guesses[name] === name ? "✓" : "✗";
}

export class Guesses {
  /** @param {string[]} names of all loops */
  constructor(names) {
    this.names = names;
    this.said = parse(read(), names);
  }

  /** Store a guess; the first guess of a loop counts. */
  keep(name, said) {
    this.said = {...parse(read(), this.names), [name]: parse(read(), this.names)[name] ?? said};
    write(JSON.stringify(this.said));
  }

  forget() {
    this.said = {};
    write(null);
  }
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is blocked: the score lasts as long as the page
  }
}

function write(text) {
  try {
    if (text === null) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, text);
  } catch {
    // storage is blocked
  }
}
