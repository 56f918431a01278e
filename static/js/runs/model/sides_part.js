/** Test pictures that only one of two models reads rightly. */

import {element, rgb} from "../../lib/page.js";
import {integer} from "../../lib/format.js";
import {sides, sidesConclusion} from "../../charts/model/disagreements.js";
import {misreadRecords, pictures} from "../../charts/model/packed.js";
import {Part} from "./part.js";
import {inked} from "./picture.js";
import {isFair} from "./twin.js";

export class SidesPart extends Part {
  constructor(root) {
    super(root, "sides");
  }

  update({model}, {plan, twin, whole, settled}) {
    if (!twin?.model?.misread || !plan.private) return this.hide();
    if (!model.misread) return this.wait(settled);
    const records = model.confusion.flat().reduce((sum, count) => sum + count, 0);
    const found = sides(misreadRecords(model.misread), misreadRecords(twin.model.misread), poolOf(twin.model, whole));
    const ink = rgb(getComputedStyle(this.root).color);
    this.drawing.replaceChildren(
      side("Lost", `${found.lostPictures.length} of ${integer(found.lost)}: only the twin is right`, found.lostPictures, plan.labels, ink),
      side("Won", `${found.wonPictures.length} of ${integer(found.won)}: only the private model is right`, found.wonPictures, plan.labels, ink),
    );
    this.show({conclusion: sidesConclusion(found, records, isFair(twin, model.step)), sub: twin.note, settled});
  }

  wait(settled) {
    this.drawing.replaceChildren();
    this.show({conclusion: "Too many misread pictures to list; the comparison appears once about nine of ten are right", sub: "", settled});
  }
}

/** Pictures that can be shown: those the twin and the whole run are least sure of at their ends. */
function poolOf(twin, whole) {
  const own = whole.models.findLast((model) => model.pictures);
  return [own, twin].filter((model) => model?.pictures).flatMap((model) => pictures(model.pictures));
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
