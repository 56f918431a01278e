/** A page and its script: the data sent with it, its marked parts, its current links. */

/** @param {string} name of the root: `data-name` */
export function openPage(name) {
  const page = document.querySelector(`[data-${name}]`);
  return {
    page,
    data: JSON.parse(document.getElementById("page-data").textContent),
    part: (part) => page.querySelector(`[data-${part}]`),
    parts: (part) => page.querySelectorAll(`[data-${part}]`),
  };
}

/** Mark the current ones of some links. @param {Iterable<Element>} links @param {(link: Element) => boolean} isCurrent */
export function markCurrent(links, isCurrent) {
  for (const link of links) {
    if (isCurrent(link)) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** Scroll to the first of two parts, unless both are in view already. @param {Element} first @param {Element} last */
export function bringIntoView(first, last) {
  const {top} = first.getBoundingClientRect();
  if (top < 0 || last.getBoundingClientRect().bottom > innerHeight) first.scrollIntoView();
}

/** A row of a table's body: its head, then its numbers. */
export function tableRow(head, numbers) {
  const line = document.createElement("tr");
  const first = Object.assign(document.createElement("th"), {scope: "row"});
  first.append(...head);
  line.append(first, ...numbers.map((text) => Object.assign(document.createElement("td"), {className: "n", textContent: text})));
  return line;
}
