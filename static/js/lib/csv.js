/** The first rows of a CSV text. */

/**
 * Pure: cells of the first complete rows; quoted cells may contain commas, line breaks and doubled quotes.
 * @param {string} text @param {number} count
 * @param {{isWhole?: boolean}} [options] `isWhole`: if false, the text is the beginning of a file, and its last row may
 *   be cut
 * @returns {string[][]}
 */
export function firstRows(text, count, {isWhole = true} = {}) {
  const rows = [];
  let [row, cell, isQuoted] = [[], "", false];
  for (let i = 0; i < text.length && rows.length < count; i += 1) {
    const letter = text[i];
    if (isQuoted) {
      if (letter !== '"') cell += letter;
      else if (text[i + 1] === '"') cell += text[(i += 1)];
      else isQuoted = false;
    } else if (letter === '"') isQuoted = true;
    else if (letter === ",") {
      row.push(cell);
      cell = "";
    } else if (letter === "\n") {
      if (cell.endsWith("\r")) cell = cell.slice(0, -1);
      if (row.length || cell) rows.push([...row, cell]);
      [row, cell] = [[], ""];
    } else cell += letter;
  }
  if (isWhole && rows.length < count && (row.length || cell)) rows.push([...row, cell]);
  return rows;
}
