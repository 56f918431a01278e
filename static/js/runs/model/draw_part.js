/** Drawing area with the answers and scores of the model and its twin. */

import {element, rgb} from "../../lib/page.js";
import {decimals} from "../../lib/format.js";
import {Scattering} from "./scattering.js";
import {answerConclusion, blank, prepared, stroke} from "./drawing.js";
import {largest, pictures, scores} from "./seen.js";
import {Part, bar, inked} from "./part.js";

const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
const scattered = (scattering) => (ink) => scattering.features(ink);
/** Functions from a picture to a model's features, by name of the model; other models are not supported here. */
const FEATURES = {logistic: () => (ink) => ink, scattering_linear: (side) => scattered(new Scattering(side))};

export class DrawPart extends Part {
  constructor(root) {
    super(root, "draw");
    this.pad = this.root.querySelector("[data-pad]");
    this.small = this.root.querySelector("[data-prepared]");
    this.said = this.root.querySelector("[data-pen]");
    this.side = this.pad.width;
    this.ink = blank(this.side);
    this.isTestPicture = false;
    /** Position and state of the keyboard's pen. */
    this.pen = {at: [this.side / 2, this.side / 2], isDown: false, isShown: false};
    this.shown = 0;
    this.wire();
  }

  wire() {
    const {pad} = this;
    pad.addEventListener("pointerdown", (event) => this.begin(event));
    pad.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) pad.addEventListener(end, () => (this.from = null));
    pad.addEventListener("keydown", (event) => this.key(event));
    pad.addEventListener("focus", () => this.showPen(true));
    pad.addEventListener("blur", () => this.showPen(false));
    this.root.querySelector("[data-clear]").addEventListener("click", () => this.clear());
    this.root.querySelector("[data-test-picture]").addEventListener("click", () => this.next());
  }

  /** @param {import("./seen.js").SeenModel} seen */
  update(seen, {plan, twin, whole, settled, model}) {
    const side = plan.input_shape?.[1];
    if (!seen.layer || plan.input_shape.length !== 3 || side !== this.side || !(model in FEATURES)) return this.hide();
    if (this.model !== model) {
      this.model = model;
      this.features = FEATURES[model](side);
    }
    this.now = {seen, plan, twin: twin?.layer?.inputs === seen.layer.inputs ? twin : null, whole, settled};
    this.pool = whole.models.findLast((data) => data.pictures) ?? twin?.model;
    this.root.querySelector("[data-test-picture]").hidden = !this.pool?.pictures;
    this.answer();
  }

  /* Drawing */

  place(event) {
    const box = this.pad.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * this.side, ((event.clientY - box.top) / box.height) * this.side];
  }

  begin(event) {
    if (event.button !== 0) return;
    this.pad.setPointerCapture(event.pointerId);
    this.pen.isDown = false;
    this.draw(this.place(event), this.place(event));
    this.from = this.place(event);
  }

  move(event) {
    if (!this.from) return;
    const to = this.place(event);
    this.draw(this.from, to);
    this.from = to;
  }

  key(event) {
    const step = ARROWS[event.key];
    if (event.key === " " || event.key === "Enter") this.dip();
    else if (step) this.walk(step);
    else if (event.key === "Delete" || event.key === "Backspace") this.clear();
    else return;
    event.preventDefault();
  }

  dip() {
    this.pen.isDown = !this.pen.isDown;
    if (this.pen.isDown) this.draw(this.pen.at, this.pen.at);
    this.say();
  }

  walk([dx, dy]) {
    const to = [this.pen.at[0] + dx, this.pen.at[1] + dy].map((value) => Math.min(this.side - 1, Math.max(1, value)));
    const from = this.pen.at;
    this.pen.at = to;
    if (this.pen.isDown) this.draw(from, to);
    else this.paint();
    this.say();
  }

  say() {
    const [x, y] = this.pen.at;
    this.said.textContent = `Pen ${this.pen.isDown ? "down" : "up"}, column ${x}, row ${y} of ${this.side}`;
  }

  showPen(isShown) {
    this.pen.isShown = isShown && this.pad.matches(":focus-visible");
    this.paint();
  }

  draw(from, to) {
    this.isTestPicture = false;
    stroke(this.ink, this.side, from, to);
    this.ask();
  }

  clear() {
    this.ink = blank(this.side);
    this.isTestPicture = false;
    this.pen.isDown = false;
    this.said.textContent = "Cleared";
    this.ask();
  }

  /** Show the next of the test pictures with the least certain predictions. */
  next() {
    const testPictures = pictures(this.pool.pictures);
    const picture = testPictures[this.shown++ % testPictures.length];
    this.ink = Float32Array.from(picture.ink);
    this.isTestPicture = true; // so that it is not rescaled
    this.said.textContent = `A test picture of class ${this.now.plan.labels[picture.label]}`;
    this.ask();
  }

  /* Predictions */

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.answer();
    });
  }

  answer() {
    const {seen, plan, twin, settled} = this.now;
    const ready = this.isTestPicture ? this.ink : prepared(this.ink, this.side);
    this.ready = ready;
    this.paint();
    const features = ready && this.features(ready);
    const [own, other] = [seen.layer, twin?.layer].map((layer) => (layer && features ? scores(layer, features) : null));
    const name = (values) => (values ? plan.labels[largest(values)] : null);
    this.fillScores(own, other, plan, Boolean(twin));
    this.show({conclusion: answerConclusion(name(own), name(other), plan.private), sub: `The model of step ${seen.weightsStep}${settled ? "" : " so far"}${twin ? ", and its twin at the end" : ""}`});
  }

  fillScores(own, other, plan, hasTwin) {
    const most = Math.max(...(own ?? []).map(Math.abs), ...(other ?? []).map(Math.abs)) || 1;
    const cells = (values, c, css) => [
      element("td", {class: "both-ways"}, bar({value: values ? values[c] / most : 0, mark: null, signed: true, css})),
      element("td", {class: values && largest(values) === c ? "n best" : "n"}, values ? decimals(values[c], 1) : "–"),
    ];
    const lines = plan.labels.map((label, c) => element("tr", {}, element("th", {scope: "row"}, label), ...cells(own, c, "f-private"), ...(hasTwin ? cells(other, c, "f-twin") : [])));
    const head = element("tr", {}, element("th", {scope: "col"}, "Class"), element("th", {scope: "col", class: "n", colspan: 2}, plan.private ? "score, private" : "score"), ...(hasTwin ? [element("th", {scope: "col", class: "n", colspan: 2}, "score, twin")] : []));
    this.drawing.replaceChildren(element("table", {class: "bars"}, element("thead", {}, head), element("tbody", {}, ...lines)));
  }

  paint() {
    const ink = rgb(getComputedStyle(this.root).color);
    const canvas = this.pad.getContext("2d");
    canvas.putImageData(new ImageData(inked(this.ink, ink), this.side), 0, 0);
    if (this.pen.isShown) this.paintPen(canvas);
    this.small.getContext("2d").putImageData(new ImageData(inked(this.ready ?? blank(this.side), ink), this.side), 0, 0);
  }

  paintPen(canvas) {
    canvas.fillStyle = getComputedStyle(this.root.querySelector("[data-pen-colour]")).backgroundColor;
    const [x, y] = this.pen.at;
    canvas.fillRect(x - 1, y - 1, 2, 2);
  }
}
