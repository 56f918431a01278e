/** Export of a drawing as a file: SVG with inline colours, or PNG. */

import {follow, save} from "./svg.js";

const SCALE = 2; // pixels of the PNG per pixel of the page
const FRAME = {top: 58, bottom: 34, side: 16};
const LINE = 17; // px, line height of the note
const TITLE_LINE = 21; // px
const [TITLE_LETTER, NOTE_LETTER] = [9.2, 6.8]; // px, approximate width of a letter
const WRITTEN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "paint-order", "font-family", "font-size", "font-weight", "font-style"];
const NAMESPACE = "http://www.w3.org/2000/svg";

/**
 * Drawing that needs no style sheet, with a title above and a note below.
 * @param {SVGElement} svg @param {{title: string, note: string | string[]}} words `note`: one line or several
 * @returns {{text: string, width: number, height: number}}
 */
export function standalone(svg, {title, note}) {
  const {width: drawn, height: tall} = svg.viewBox.baseVal;
  const width = drawn + 2 * FRAME.side;
  const titles = wrapped(title, drawn / TITLE_LETTER);
  const lines = [note].flat().flatMap((line) => wrapped(line, drawn / NOTE_LETTER));
  const above = FRAME.top + TITLE_LINE * (titles.length - 1);
  const height = tall + above + FRAME.bottom + LINE * (lines.length - 1);
  const root = document.createElementNS(NAMESPACE, "svg");
  for (const [name, value] of Object.entries({viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title})) root.setAttribute(name, String(value));
  const style = getComputedStyle(svg);
  const ground = element("rect", {width, height, fill: style.getPropertyValue("--surface").trim()});
  const font = style.getPropertyValue("--sans").trim();
  const headings = titles.map((line, i) => element("text", {x: FRAME.side, y: 30 + TITLE_LINE * i, "font-family": font, "font-size": 16, "font-weight": 600, fill: style.getPropertyValue("--ink").trim()}, line));
  const feet = lines.map((line, i) => element("text", {x: FRAME.side, y: tall + above + 22 + LINE * i, "font-family": font, "font-size": 12, fill: style.getPropertyValue("--ink-2").trim()}, line));
  const body = element("g", {transform: `translate(${FRAME.side} ${above})`});
  for (const child of svg.children) body.append(written(child));
  root.append(ground, ...headings, body, ...feet);
  return {text: new XMLSerializer().serializeToString(root), width, height};
}

/** Address of the page, without the settings in it. */
export function pageAddress() {
  return `${location.origin}${location.pathname}`;
}

/** Splits a text into lines of at most `letters` characters. @returns {string[]} */
export function wrapped(words, letters) {
  const lines = [""];
  for (const word of words.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (longer.length <= letters || lines.at(-1) === "") lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Save a drawing as a file. @param {"svg" | "png"} kind */
export async function savePicture(svg, words, file, kind) {
  const {text, width, height} = standalone(svg, {...words, note: [words.note, pageAddress()].flat()});
  if (kind === "svg") save(`${file}.svg`, text, "image/svg+xml");
  else follow(`${file}.png`, await rastered(text, width, height));
}

/** Data URL of a drawing as PNG. @param {string} text an SVG that needs no style sheet */
export async function rastered(text, width, height, scale = SCALE) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), {width: scale * width, height: scale * height});
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.drawImage(image, 0, 0, width, height);
  return canvas.toDataURL("image/png");
}

/** Copy of an element with its computed style as attributes. */
function written(source) {
  const copy = source.cloneNode(false);
  for (const name of ["class", "href", "tabindex"]) copy.removeAttribute(name); // a saved picture has no page to link to
  if (source instanceof SVGGraphicsElement) {
    const style = getComputedStyle(source);
    for (const name of WRITTEN) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && value !== "normal") copy.setAttribute(name, value);
      else if (value === "none" && (name === "fill" || name === "stroke")) copy.setAttribute(name, "none");
    }
  }
  if (source.children.length === 0) copy.textContent = source.textContent;
  else copy.append(...[...source.children].map(written));
  return copy;
}

function element(name, attributes, words = "") {
  const node = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  if (words) node.textContent = words;
  return node;
}
