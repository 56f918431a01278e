/** Selection of runs in the list, for a comparison. */

import {plural} from "../../lib/format.js";

const MOST = 8;

export class Selection {
  /** @param {HTMLElement} list contains the form [data-selection]; its content is replaced repeatedly */
  constructor(list) {
    this.list = list;
    /** @type {Set<string>} */
    this.ids = new Set();
    list.addEventListener("change", ({target}) => {
      if (target.name !== "ids") return;
      if (target.checked) this.ids.add(target.value);
      else this.ids.delete(target.value);
      this.show();
    });
    list.addEventListener("submit", (event) => this.go(event));
    for (const box of this.boxes) if (box.checked) this.ids.add(box.value);
    this.show();
  }

  get boxes() {
    return this.list.querySelectorAll('input[name="ids"]');
  }

  /** Restore the ticks in a new list; ids that are no longer in it are dropped. */
  restore() {
    const present = new Set([...this.boxes].map(({value}) => value));
    for (const id of this.ids) if (!present.has(id)) this.ids.delete(id);
    for (const box of this.boxes) box.checked = this.ids.has(box.value);
    this.show();
  }

  show() {
    const bar = this.list.querySelector("[data-selection-bar]");
    if (!bar) return;
    const {size} = this.ids;
    bar.classList.toggle("chosen", size > 0);
    const button = bar.querySelector("[data-compare]");
    button.disabled = size === 0 || size > MOST;
    button.classList.toggle("primary", size > 1 && size <= MOST);
    button.textContent = size === 0 ? "Compare" : `Compare ${plural(size, "run")}`;
    bar.querySelector("[data-chosen]").textContent = size > MOST ? `At most ${MOST} runs: deselect ${size - MOST}` : size === 0 ? `Tick up to ${MOST} trainings` : `${size} chosen, up to ${MOST}`;
  }

  /** Open a comparison by an address with comma-separated ids, which is short enough to share. */
  go(event) {
    if (!event.target.matches("[data-selection]")) return;
    event.preventDefault();
    if (this.ids.size > 0 && this.ids.size <= MOST) location.assign(`${event.target.action}?ids=${[...this.ids].join(",")}`);
  }
}
