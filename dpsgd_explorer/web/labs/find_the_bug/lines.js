/**
 * Selectable lines of code: by click, or by arrow keys and Enter.
 * One line can be focused at a time, as in a list box.
 */

const MOVES = {ArrowDown: (i) => i + 1, ArrowUp: (i) => i - 1, Home: () => 0, End: (_, last) => last};

/** Pure: index that a key moves to; null for other keys. */
export function moved(key, index, count) {
  const move = MOVES[key];
  return move ? Math.min(count - 1, Math.max(0, move(index, count - 1))) : null;
}

export class Lines {
  /** @param {HTMLElement} code contains one element per line @param {(text: string) => void} picked */
  constructor(code, picked) {
    this.code = code;
    this.picked = picked;
    this.lines = [...code.children].filter((line) => line.textContent.trim());
    this.isOpen = true;
    for (const line of code.children) line.setAttribute("role", "none"); // the role of empty lines
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
    const index = this.lines.indexOf(event.target);
    const next = moved(event.key, index, this.lines.length);
    if (next === null && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (next === null) this.pick(index);
    else this.focus(next);
  }

  focus(index) {
    for (const [i, line] of this.lines.entries()) line.tabIndex = i === index ? 0 : -1;
    this.lines[index].focus();
  }

  pick(index) {
    if (!this.isOpen) return;
    for (const [i, line] of this.lines.entries()) line.setAttribute("aria-selected", String(i === index));
    this.focus(index);
    this.picked(this.lines[index].textContent.trim());
  }

  /** True if the selected line is the faulty one; false without a selection. */
  get isRight() {
    return this.lines.some((line) => line.ariaSelected === "true" && "atFault" in line.dataset);
  }

  /** Disable further selections; the current one stays marked. */
  close() {
    this.isOpen = false;
  }
}
