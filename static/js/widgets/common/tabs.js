/** Panels that stand side by side on wide pages and share one place, with tabs, on narrow ones. */

export const NARROW = "(max-width: 44rem)"; // as in widgets.css

/**
 * Adds one button per panel before the panels. A "tab" event with a name as its detail shows that panel.
 * @param {HTMLElement} place parent of the panels; each has its name in `data-tab`
 */
export function tabs(place) {
  const panels = [...place.children].filter(({dataset}) => dataset.tab);
  const row = document.createElement("div");
  row.className = "tabs segmented";
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", "Panels");
  const buttons = panels.map((panel) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = panel.dataset.tab;
    button.addEventListener("click", () => show(panel));
    return button;
  });
  const show = (chosen) => panels.forEach((panel, i) => {
    panel.classList.toggle("shown", panel === chosen);
    buttons[i].setAttribute("aria-pressed", String(panel === chosen));
  });
  place.addEventListener("tab", ({detail}) => show(panels.find(({dataset}) => dataset.tab === detail)));
  row.append(...buttons);
  row.hidden = panels.length === 1;
  place.before(row);
  place.classList.add("tabbed");
  show(panels[0]);
}

/** Shows the panel that contains an element, if the page hides it. @param {Element} element */
export function reveal(element) {
  const panel = element.closest("[data-tab]");
  if (panel?.checkVisibility() === false) panel.parentElement.dispatchEvent(new CustomEvent("tab", {detail: panel.dataset.tab}));
}
