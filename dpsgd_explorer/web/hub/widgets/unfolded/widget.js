/**
 * Convolution as a matrix product: the kernel times a column of the unfolded image is an output, a row times g is an
 * entry of the gradient.
 */

import {Chart, area, box, text} from "../../../../../static/js/lib/svg.js";
import {playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const LARGEST = 64; // px, largest size of a cell
const GAP = 24; // px, between image, kernel and output
const NEAR = 8; // px, between the matrix and the vectors next to it
const TICK_MS = 900; // between two positions that follow by themselves
const TOP = 26; // px, for the labels above
const WORDS = {
  output: {sub: "y = w U: the kernel w times each column", place: "Position of the kernel", blocks: ["image", "kernel w", "output y"], matrix: "U: a column for each position"},
  gradient: {sub: "U g: each row times the output’s gradient g", place: "Entry of the kernel", blocks: ["image", "g", "U g"], matrix: "U: a row for each entry of w"},
};

/** Pure: number as text. */
const printed = (value) => String(value).replace("-", "−");

/** Pure: terms of one row or column's product, as text. */
export function product({lines, by, makes}, index) {
  const terms = lines[index].map((pixel, i) => `${by[i] < 0 ? `(${printed(by[i])})` : by[i]} × ${printed(pixel)}`);
  return `${terms.join(" + ")} = ${printed(makes[index])}`;
}

/** Pure: heading. */
export function conclusion({name, makes}, index) {
  const [number, entry] = [index + 1, printed(makes[index])];
  return name === "output"
    ? `At position ${number} the kernel covers the pixels of column ${number} and computes entry ${number} of the output: ${entry}`
    : `Entry ${number} of the kernel was multiplied by the pixels of row ${number}, and its gradient for this record is ${entry}`;
}

/** Pure: size of a cell, where three blocks of seven columns, or the matrix with both vectors, fill a width. */
const imageCell = (width) => Math.min(LARGEST, Math.floor((width - 2 * GAP - 2) / 7));
const matrixCell = (width) => Math.min(LARGEST, Math.floor((width - 2 * NEAR - 32) / 6));

/** Pure: row and column of an entry in row-major order. */
export const corner = (index, side) => [Math.floor(index / side), index % side];

export function mount(element, data) {
  const speak = speaker(element);
  const [ways, places] = ["way", "place"].map((name) => [...element.querySelectorAll(`[data-${name}]`)]);
  const chosen = (radios) => radios.findIndex((radio) => radio.checked);
  const [image, matrix] = [
    ["image", (width) => 3 * imageCell(width), "The image with the four multiplied pixels, their factors, and the resulting entry"],
    ["matrix", (width) => 6 * matrixCell(width) + 2 * NEAR, "The unfolded matrix with the multiplied line, and the resulting entry"],
  ].map(([name, height, label]) => new Chart(part(element, name), {height: (width) => TOP + height(width) + 2, label, draw: () => draw()}));

  function draw() {
    if (!image.width && !matrix.width) return;
    const [way, index] = [data.ways[chosen(ways)], chosen(places)];
    const words = WORDS[way.name];
    image.show(blocks(image.width, data, way, index));
    matrix.show(unfolded(matrix.width, data, way, index));
    write(element, "title", conclusion(way, index));
    write(element, "sub", `One record, one channel, stride 1, no padding; ${words.sub}`);
    write(element, "place-words", words.place);
    write(element, "fact", product(way, index));
    speak(`${conclusion(way, index)}. ${product(way, index)}`);
  }
  part(element, "next").addEventListener("click", () => {
    places[(chosen(places) + 1) % places.length].checked = true;
    draw();
  });
  for (const radio of [...ways, ...places]) radio.addEventListener("change", draw);
  playOnce(element, [1, 2, 3, 0].map((place) => () => {
    places[place].checked = true;
    draw();
  }), TICK_MS);
}

/** Table of numbers; `lit` is [row, column, rows, columns] of the highlighted cells. */
function cells([x, y], size, rows, {lit = [0, 0, 0, 0], css = "f-surface"} = {}) {
  const [top, left, high, wide] = lit;
  const isLit = (i, j) => i >= top && i < top + high && j >= left && j < left + wide;
  const at = (i, j) => [x + size * j, y + size * i];
  const each = (draw) => rows.flatMap((row, i) => row.map((value, j) => draw(value, i, j)));
  return [
    ...each((_, i, j) => box(at(i, j), size, size, `${isLit(i, j) ? "f-band" : css} cell`)),
    ...(high ? [area([at(top, left), at(top, left + wide), at(top + high, left + wide), at(top + high, left)], "line s-ink")] : []),
    ...each((value, i, j) => text([x + size * (j + 0.5), y + size * (i + 0.5) + 5], printed(value), "ink", "middle")),
  ];
}

/** Row-major entries as a square. */
const square = (entries, side) => Array.from({length: side}, (_, i) => entries.slice(side * i, side * (i + 1)));

/** The image, the factors of its highlighted pixels, and the result. */
function blocks(width, {image, side}, {name, by, makes}, index) {
  const size = imageCell(width);
  const at = corner(index, side);
  const lefts = [1, 3 * size + GAP, (3 + side) * size + 2 * GAP];
  return [
    ...WORDS[name].blocks.map((words, i) => text([lefts[i], 14], words, "strong")),
    ...cells([lefts[0], TOP], size, image, {lit: [...at, side, side]}),
    text([lefts[1] - GAP / 2, TOP + size + 5], "·", "strong", "middle"),
    ...cells([lefts[1], TOP], size, square(by, side), {css: "f-sunken"}),
    text([lefts[2] - GAP / 2, TOP + size + 5], "=", "strong", "middle"),
    ...cells([lefts[2], TOP], size, square(makes, side), {lit: [...at, 1, 1]}),
  ];
}

/**
 * The unfolded matrix; for the output with the kernel at its left and y below, for the gradient with g above and U g
 * at its right.
 */
function unfolded(width, {columns}, {name, by, makes}, index) {
  const count = columns.length;
  const size = matrixCell(width);
  const [left, top] = [1 + size + NEAR, TOP + size + NEAR];
  const [right, bottom] = [left + count * size + NEAR, top + count * size + NEAR];
  const rows = columns[0].map((_, i) => columns.map((column) => column[i]));
  const upright = (entries) => entries.map((value) => [value]);
  const title = (y) => text([left, y], WORDS[name].matrix, "strong");
  if (name === "output") {
    return [
      title(top - 10), text([1 + size / 2, top - 10], "w", "strong", "middle"), text([left - 12, bottom + size / 2 + 5], "y", "strong", "end"),
      ...cells([1, top], size, upright(by), {css: "f-sunken"}),
      ...cells([left, top], size, rows, {lit: [0, index, count, 1]}),
      ...cells([left, bottom], size, [makes], {lit: [0, index, 1, 1]}),
    ];
  }
  return [
    title(14), text([left - 12, TOP + size / 2 + 5], "g", "strong", "end"), text([right + size / 2, top - 10], "U g", "strong", "middle"),
    ...cells([left, TOP], size, [by], {css: "f-sunken"}),
    ...cells([left, top], size, rows, {lit: [index, 0, 1, count]}),
    ...cells([right, top], size, upright(makes), {lit: [index, 0, 1, 1]}),
  ];
}
