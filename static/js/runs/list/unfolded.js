/** Open groups of runs in the list, whose content is replaced repeatedly. */

export class Unfolded {
  /** @param {HTMLElement} list contains a [data-run-group] with a [data-unfold] for each group */
  constructor(list) {
    this.list = list;
    /** @type {Set<string>} */
    this.ids = new Set();
    list.addEventListener("click", ({target}) => {
      const button = target.closest("[data-unfold]");
      if (button) this.toggle(button.closest("[data-run-group]").dataset.runGroup);
    });
  }

  toggle(id) {
    if (this.ids.has(id)) this.ids.delete(id);
    else this.ids.add(id);
    this.show();
  }

  /** Open the same groups in the current list. */
  show() {
    for (const group of this.list.querySelectorAll("[data-run-group]")) {
      const isOpen = this.ids.has(group.dataset.runGroup);
      group.classList.toggle("open", isOpen);
      group.querySelector("[data-unfold]").setAttribute("aria-expanded", String(isOpen));
    }
  }
}
