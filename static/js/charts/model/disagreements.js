/** Test pictures that a private model and its twin read differently. Pure. */

import {integer} from "../../lib/format.js";

const SHOWN = 12; // of either side

/**
 * @typedef {object} Sides
 * @property {number} lost records that only the twin reads rightly
 * @property {number} won records that only the private model reads rightly
 * @property {{picture: import("./packed.js").Picture, read: number}[]} lostPictures what the private model reads
 * @property {{picture: import("./packed.js").Picture, read: number}[]} wonPictures what the twin reads
 */

/**
 * @param {Map<number, number>} own misread records of the private model
 * @param {Map<number, number>} twin the same of its twin
 * @param {import("./packed.js").Picture[]} pool of pictures that can be shown
 * @returns {Sides}
 */
export function sides(own, twin, pool) {
  return {
    lost: [...own.keys()].filter((index) => !twin.has(index)).length,
    won: [...twin.keys()].filter((index) => !own.has(index)).length,
    lostPictures: shown(pool, own, twin),
    wonPictures: shown(pool, twin, own),
  };
}

/** Pictures that `wrong` misreads and `right` does not, from as many classes as there are. */
function shown(pool, wrong, right) {
  const rounds = new Map();
  const unique = new Map(pool.map((picture) => [picture.index, picture]));
  const fitting = [...unique.values()].filter(({index}) => wrong.has(index) && !right.has(index));
  const ranked = fitting.map((picture) => {
    const round = rounds.get(picture.label) ?? 0;
    rounds.set(picture.label, round + 1);
    return {picture, read: wrong.get(picture.index), round};
  });
  const chosen = ranked.sort((a, b) => a.round - b.round || a.picture.label - b.picture.label).slice(0, SHOWN);
  return chosen.sort((a, b) => a.picture.label - b.picture.label || a.picture.index - b.picture.index);
}

/** @param {Sides} found @param {number} records in the test set @param {boolean} fair whether the twin differs by privacy alone */
export function sidesConclusion({lost, won}, records, fair = true) {
  if (lost + won === 0) return `Both models are right on the same pictures, of ${integer(records)} test pictures`;
  if (!fair) return `Only the twin is right on ${integer(lost)} of ${integer(records)} test pictures, only this model on ${integer(won)}`;
  return `Privacy lost ${integer(lost)} of ${integer(records)} test pictures and won ${integer(won)}`;
}
