/** Preview of a file before it is uploaded; the browser reads it and sends nothing. */

import {firstRows} from "../lib/csv.js";
import {showTable} from "../lib/svg.js";

const BYTES = 65536; // read at the beginning of the file
const ROWS = 5;
const LONGEST_CELL = 40; // characters

const place = document.querySelector("[data-preview]");
const input = document.querySelector("#file");

input.addEventListener("change", preview);
preview(); // the browser may restore the choice

async function preview() {
  const [file] = input.files;
  place.hidden = true;
  if (!file) return;
  const text = new TextDecoder().decode(await file.slice(0, BYTES).arrayBuffer());
  const [heads, ...rows] = firstRows(text, ROWS + 1, {isWhole: file.size <= BYTES});
  if (input.files[0] !== file || !heads) return; // another file was chosen meanwhile
  const cells = heads.map((_, i) => i);
  const short = (cell = "") => (cell.length > LONGEST_CELL ? `${cell.slice(0, LONGEST_CELL)}…` : cell);
  showTable(place.querySelector("[data-rows]"), {caption: file.name, heads: heads.map(short), rows: rows.map((row) => cells.map((i) => short(row[i]))), words: cells});
  place.hidden = false;
}
