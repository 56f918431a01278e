/** A bar in a cell of a table, with a stroke where the twin's would end. */

import {box, make, rule} from "../../lib/svg.js";

const WIDTH = 200;
const HEIGHT = 22;

/**
 * @param {object} drawn
 * @param {number} drawn.value 0 to 1, or from -1 if it is signed
 * @param {number | null} drawn.mark the twin's; null: none
 * @param {string} [drawn.css] class of the bar
 * @param {boolean} [drawn.signed] it goes to either side of the middle
 */
export function bar({value, mark, signed = false, css = value < 0 ? "f-ink" : "f-private"}) {
  const zero = signed ? WIDTH / 2 : 0;
  const length = (share) => share * (signed ? WIDTH / 2 : WIDTH);
  const [from, to] = [zero, zero + length(value)].sort((a, b) => a - b);
  const stroke = mark === null ? [] : [rule([zero + length(mark), 1], [zero + length(mark), HEIGHT - 1], "line s-twin")];
  const axis = signed ? [rule([zero, 0], [zero, HEIGHT], "axis")] : [];
  const marks = [box([from, 5], to - from, 12, css), ...axis, ...stroke];
  return make({name: "svg", attributes: {class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true"}, content: marks});
}
