/** The presets over the settings: links that fill the form, the one that it holds marked and in view. */

import {markCurrent} from "../lib/page.js";
import {sameSettings} from "./query.js";

export class Presets {
  /**
   * @param {HTMLElement} root holds the [data-preset] links
   * @param {Record<string, Record<string, string>>} settings of each preset
   * @param {(texts: Record<string, string>) => void} choose
   */
  constructor(root, settings, choose) {
    this.settings = settings;
    this.links = [...root.querySelectorAll("[data-preset]")];
    for (const link of this.links) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        choose(settings[link.dataset.preset]);
      });
    }
  }

  /** The preset that these settings are, if they are one. @param {Record<string, string>} texts */
  slugOf(texts) {
    return Object.keys(this.settings).find((slug) => sameSettings(this.settings[slug], texts));
  }

  mark(slug) {
    markCurrent(this.links, (link) => link.dataset.preset === slug);
    const link = this.links.find((one) => one.dataset.preset === slug);
    const row = link?.closest("ul");
    if (row) row.scrollLeft = link.offsetLeft - (row.clientWidth - link.offsetWidth) / 2; // sideways alone
  }
}
