/** A chart's numbers as a table and as CSV, and saving files. */

/**
 * @typedef {object} Rows
 * @property {string} caption
 * @property {string[]} heads
 * @property {(string | number | null)[][]} rows as printed
 * @property {number[]} [words] columns of words, which begin at the left
 */

const MOST_ROWS = 1000;

/** Fill an element with a table. @param {HTMLElement} element @param {Rows} data */
export function showTable(element, {caption, heads, rows, words = []}) {
  const table = document.createElement("table");
  table.className = "data";
  table.createCaption().textContent = caption;
  const head = table.createTHead().insertRow();
  heads.forEach((text, i) => head.append(headCell(text, sideOf(i, words))));
  const body = table.createTBody();
  for (const row of rows.slice(0, MOST_ROWS)) {
    const line = body.insertRow();
    for (const [i, value] of row.entries()) {
      const cell = line.insertCell();
      cell.className = sideOf(i, words);
      cell.textContent = value === null ? "–" : String(value);
    }
  }
  element.replaceChildren(table);
}

/** Numbers stand at the right. */
function sideOf(column, words) {
  return words.includes(column) ? "" : "n";
}

function headCell(text, side) {
  const cell = document.createElement("th");
  cell.scope = "col";
  cell.className = side;
  cell.textContent = text;
  return cell;
}

/** RFC 4180 text; the heads are column names. @param {(string | number | null)[][]} rows */
export function csv(heads, rows) {
  return [heads, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Hand the visitor a file made in the page. */
export function save(name, text, type = "text/csv") {
  const url = URL.createObjectURL(new Blob([text], {type}));
  follow(name, url);
  URL.revokeObjectURL(url);
}

/** Have the browser save what an address holds. */
export function follow(name, url) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
