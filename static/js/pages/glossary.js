/** Glossary: shows the entries that contain the words of the search. */

/** Pure: true if a text contains every word of a search, whatever the case. */
export function contains(text, search) {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

function start() {
  const field = document.querySelector("[data-search]");
  const entries = [...document.querySelectorAll(".glossary > div")];
  field.addEventListener("input", () => {
    for (const entry of entries) entry.hidden = !contains(entry.textContent, field.value.trim());
    const count = entries.filter((entry) => !entry.hidden).length;
    document.querySelector("[data-found]").textContent = field.value.trim() ? `${count} of ${entries.length} terms` : "";
  });
}

if (globalThis.document) start();
