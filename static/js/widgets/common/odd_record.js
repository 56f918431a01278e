/** Record 24, the odd one: its mark, a ring with a dot, and its handle, moved by pointer or arrow keys. */

import {grip} from "./drag.js";
import {decimals} from "../../lib/format.js";
import {clamp, disc, make, text} from "../../lib/svg.js";

const EDGE = 0.05; // margin inside the x range, in data units
const STEPS = {small: [0.05, 0.1], big: [0.25, 0.5]}; // distance per key press, in x and y

const WHOLE = 34; // px, height of the hand-drawn nine; its loop holds the record

/** Mark of record 24, wherever it matters. @returns {import("../../lib/svg.js").Mark[]} */
export const mark24 = (at) => [disc(at, 7, "mark-24"), disc(at, 2.5, "f-attack")];

/** Pure: nearest allowed position. */
export function within([x, y], {x_range: [low, high], y_range: ends}) {
  return [clamp(x, low + EDGE, high - EDGE), clamp(y, ...ends)];
}

/**
 * @param {import("../../lib/svg.js").Chart} chart
 * @param {{x_range: [number, number], y_range: [number, number]}} data
 * @param {{control: string, place: () => [number, number], move: (to: [number, number]) => void}} options
 * `place` returns its position, `move` receives the requested one.
 */
export function oddRecord(chart, data, {control, place, move}) {
  const handle = grip(chart, {
    label: "The odd record: arrow keys move it", control, role: "movable record", range: data.y_range,
    move: (to) => move(within(to, data)),
    step: ([dx, dy], isBig) => {
      const [x, y] = place();
      const [wide, high] = isBig ? STEPS.big : STEPS.small;
      move(within([x + dx * wide, y + dy * high], data));
    },
  });
  const nine = make({name: "use", attributes: {class: "nine", href: "#nine", x: (-30 / 80) * WHOLE, y: (-25 / 80) * WHOLE, width: 0.8 * WHOLE, height: WHOLE}});
  const element = chart.grips.lastElementChild;
  element.classList.add("odd");
  element.append(nine);
  return {
    /** Update its position; `consequence` describes the effect, for screen readers. */
    show(consequence) {
      const [x, y] = place();
      handle.at([chart.x(x), chart.y(y)], decimals(y, 1).replace("−", "-"), `x ${decimals(x)}, y ${decimals(y)}; ${consequence}`, [x, y]);
    },
  };
}

/**
 * Label that invites to drag a point, unless the page's address locks it. @returns
 * {import("../../lib/svg.js").Mark[]}
 */
export function invitation({width, height, grips}, [x, y]) {
  if (grips.querySelector(".locked")) return [];
  const isRight = x > width / 2;
  return [text([x + (isRight ? -16 : 16), y + (y > height - 40 ? -10 : 18)], "drag me", "ink halo", isRight ? "end" : "start")];
}
