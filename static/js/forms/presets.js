/** Cards of presets: one tab stop, moved by the arrow keys over rows and columns. */

import {sameSettings} from "./query.js";
import {markCurrent} from "../lib/page.js";

/**
 * Pure: index of the card that a key leads to, or null for other keys. Rows and columns follow from the positions of
 * the cards, because a narrow page has other columns than a wide one.
 * @param {{x: number, y: number}[]} places of the cards @param {number} from index @param {string} key
 */
export function cardAt(places, from, key) {
  if (key === "Home") return 0;
  if (key === "End") return places.length - 1;
  const [along, across, sign] = {ArrowRight: ["x", "y", 1], ArrowLeft: ["x", "y", -1], ArrowDown: ["y", "x", 1], ArrowUp: ["y", "x", -1]}[key] ?? [];
  if (!along) return null;
  const here = places[from];
  const ahead = (place) => sign * (place[along] - here[along]);
  let best = from;
  for (const [i, place] of places.entries()) {
    if (Math.abs(place[across] - here[across]) > 1 || ahead(place) <= 1) continue;
    if (best === from || ahead(place) < ahead(places[best])) best = i;
  }
  return best;
}

export class Presets {
  /**
   * @param {HTMLElement} root contains the list [data-presets], or none where a link fixes settings
   * @param {Record<string, Record<string, string>>} settings of each preset
   * @param {(texts: Record<string, string>) => void} choose
   */
  constructor(root, settings, choose) {
    this.settings = settings;
    this.list = root.querySelector("[data-presets]");
    this.cards = [...(this.list?.querySelectorAll("a") ?? [])];
    for (const card of this.cards) {
      const {preset} = card.dataset;
      if (!preset) continue; // a link to another page
      card.addEventListener("click", (event) => {
        event.preventDefault();
        choose(settings[preset]);
      });
    }
    this.list?.addEventListener("keydown", (event) => this.move(event));
    this.list?.addEventListener("scroll", () => this.fade(), {passive: true});
    addEventListener("resize", () => this.fade());
    this.stopAt(this.cards[0]);
    this.fade();
  }

  move(event) {
    const from = this.cards.indexOf(event.target);
    const to = from < 0 || event.altKey || event.ctrlKey || event.metaKey ? null : cardAt(this.cards.map((card) => ({x: card.offsetLeft, y: card.offsetTop})), from, event.key);
    if (to === null) return;
    event.preventDefault();
    this.stopAt(this.cards[to]);
    this.cards[to].focus();
  }

  /** The card that the Tab key reaches. @param {HTMLElement | undefined} card */
  stopAt(card) {
    for (const other of this.cards) other.tabIndex = other === card ? 0 : -1;
  }

  /** No fading edge at the end of the list. */
  fade() {
    if (this.list) this.list.classList.toggle("at-end", this.list.scrollLeft + this.list.clientWidth >= this.list.scrollWidth - 2);
  }

  /** Preset with these settings, if there is one. @param {Record<string, string>} texts */
  slugOf(texts) {
    return Object.keys(this.settings).find((slug) => sameSettings(this.settings[slug], texts));
  }

  /** @param {string | undefined} slug undefined: no preset has these settings, so no card is current */
  mark(slug) {
    const isMarked = ({dataset}) => slug !== undefined && dataset.preset === slug;
    markCurrent(this.cards, isMarked);
    const card = this.cards.find(isMarked);
    if (!card) return;
    this.stopAt(card);
    this.list.scrollLeft = card.offsetLeft - (this.list.clientWidth - card.offsetWidth) / 2; // scrolls only horizontally
  }
}
