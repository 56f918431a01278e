/** Test pictures that only one of two models classifies correctly. */

import {integer} from "../../lib/format.js";
import {element, rgb} from "../../lib/page.js";
import {Part, inked} from "./part.js";
import {isFair, misreadRecords, pictures} from "./seen.js";

const SHOWN = 12; // maximum number of pictures per model

/**
 * @typedef {object} Sides
 * @property {number} lost records that only the twin classifies correctly
 * @property {number} won records that only the private model classifies correctly
 * @property {{picture: Picture, read: number}[]} lostPictures `read`: prediction of the private model
 * @property {{picture: Picture, read: number}[]} wonPictures `read`: prediction of the twin
 */

/**
 * @param {Map<number, number>} misread misclassified records of the private model, with predictions
 * @param {Map<number, number>} twin misclassified records of the twin, with predictions
 * @param {Picture[]} pool available pictures
 * @returns {Sides}
 */
export function sides(misread, twin, pool) {
  return {
    lost: [...misread.keys()].filter((index) => !twin.has(index)).length,
    won: [...twin.keys()].filter((index) => !misread.has(index)).length,
    lostPictures: shown(pool, misread, twin),
    wonPictures: shown(pool, twin, misread),
  };
}

/** At most `SHOWN` pictures that are in `wrong` and not in `right`, spread over the classes. */
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

/**
 * @param {Sides} found @param {number} records in the test set
 * @param {boolean} fair if true, the twin differs only in privacy
 */
export function sidesConclusion({lost, won}, records, fair = true) {
  if (lost + won === 0) return `Both models are right on the same pictures, of ${integer(records)} test pictures`;
  if (!fair) return `Only the twin is right on ${integer(lost)} of ${integer(records)} test pictures, only this model on ${integer(won)}`;
  return `Privacy lost ${integer(lost)} of ${integer(records)} test pictures and won ${integer(won)}`;
}

export class SidesPart extends Part {
  constructor(root) {
    super(root, "sides");
  }

  update({model}, {plan, twin, whole}) {
    if (!twin?.model?.misread || !plan.private) return this.hide();
    if (!model.misread) return this.wait();
    const records = model.confusion.flat().reduce((sum, count) => sum + count, 0);
    const comparison = sides(misreadRecords(model.misread), misreadRecords(twin.model.misread), poolOf(twin.model, whole));
    const ink = rgb(getComputedStyle(this.root).color);
    this.drawing.replaceChildren(
      side("Lost", `${comparison.lostPictures.length} of ${integer(comparison.lost)}: only the twin is right`, comparison.lostPictures, plan.labels, ink),
      side("Won", `${comparison.wonPictures.length} of ${integer(comparison.won)}: only the private model is right`, comparison.wonPictures, plan.labels, ink),
    );
    this.show({conclusion: sidesConclusion(comparison, records, isFair(twin, model.step)), sub: twin.note});
  }

  wait() {
    this.drawing.replaceChildren();
    this.show({conclusion: "Too many misread pictures to list; the comparison appears once about nine of ten are right", sub: ""});
  }
}

/** Available pictures: those with the least certain final predictions of the twin and of the run. */
function poolOf(twin, whole) {
  const lastModel = whole.models.findLast((model) => model.pictures);
  return [lastModel, twin].filter((model) => model?.pictures).flatMap((model) => pictures(model.pictures));
}

function side(title, words, shown, labels, colour) {
  const items = shown.map(({picture, read}) => element("li", {}, drawn(picture, labels[picture.label], colour), element("strong", {}, labels[picture.label]), `read ${labels[read]}`));
  return element("div", {class: "sides-row"}, element("p", {}, element("strong", {}, title), element("small", {}, words)), element("ul", {class: "digits"}, ...items));
}

function drawn({ink}, label, colour) {
  const side = Math.sqrt(ink.length);
  const canvas = element("canvas", {width: side, height: side, role: "img", "aria-label": `Test picture of class ${label}`});
  canvas.getContext("2d").putImageData(new ImageData(inked(ink, colour), side), 0, 0);
  return canvas;
}
