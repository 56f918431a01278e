/**
 * Lines of code of which one can be picked: by a click, or by arrow keys and Enter.
 * One line takes the focus at a time, the way a list box does.
 */

const MOVES = {ArrowDown: (i) => i + 1, ArrowUp: (i) => i - 1, Home: () => 0, End: (_, last) => last};

/** Pure: the place that a key leads to; null where it leads nowhere. */
export function moved(key, place, count) {
  const move = MOVES[key];
  return move ? Math.min(count - 1, Math.max(0, move(place, count - 1))) : null;
}

export class Lines {
  /** @param {HTMLElement} code holds one element a line @param {(text: string) => void} picked */
  constructor(code, picked) {
    this.code = code;
    this.picked = picked;
    this.lines = [...code.children].filter((line) => line.textContent.trim());
    this.isOpen = true;
    for (const line of code.children) line.setAttribute("role", "none"); // empty ones stay so
    code.setAttribute("role", "listbox");
    code.setAttribute("aria-label", "Lines of code; press Enter to pick the faulty line");
    for (const [i, line] of this.lines.entries()) {
      line.setAttribute("role", "option");
      line.setAttribute("aria-selected", "false");
      line.tabIndex = i === 0 ? 0 : -1;
      line.addEventListener("click", () => this.pick(i));
    }
    code.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const place = this.lines.indexOf(event.target);
    const next = moved(event.key, place, this.lines.length);
    if (next === null && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (next === null) this.pick(place);
    else this.focus(next);
  }

  focus(place) {
    for (const [i, line] of this.lines.entries()) line.tabIndex = i === place ? 0 : -1;
    this.lines[place].focus();
  }

  pick(place) {
    if (!this.isOpen) return;
    for (const [i, line] of this.lines.entries()) line.setAttribute("aria-selected", String(i === place));
    this.focus(place);
    this.picked(this.lines[place].textContent.trim());
  }

  /** Whether the line that is picked is the one at fault; false where none is. */
  get isRight() {
    return this.lines.some((line) => line.ariaSelected === "true" && "atFault" in line.dataset);
  }

  /** Nothing can be picked any more; what was stays marked. */
  close() {
    this.isOpen = false;
  }
}
