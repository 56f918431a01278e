/** The ink disc of a chart: drag it, or focus it and press arrow keys. */

import {make} from "./svg.js";

const DIRECTIONS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};

/** Pure: the direction of a key, x to the right and y up; null for other keys. */
export function direction(key) {
  return DIRECTIONS[key] ?? null;
}

/**
 * @param {import("./svg.js").Chart} chart
 * @param {{label: string, range: [number, number], move: (to: [number, number]) => void,
 *   step: (direction: [number, number], big: boolean) => void, role?: string}} options
 *   `move` gets data units, `step` a direction per key press; Shift makes it big. `range` are the ends of the value.
 */
export function grip(chart, {label, range, move, step, role = ""}) {
  const element = make({
    name: "g",
    attributes: {
      class: "grip", tabindex: 0, role: "slider", "aria-label": label, "aria-roledescription": role,
      "aria-valuemin": range[0], "aria-valuemax": range[1],
    },
    content: [
      {name: "circle", attributes: {class: "grip-area", r: 22}},
      {name: "circle", attributes: {class: "handle", r: 9}},
      {name: "circle", attributes: {class: "handle-ring", r: 10.5}},
    ],
  });
  chart.grips.append(element);
  let held = false;
  element.addEventListener("pointerdown", (event) => {
    held = true;
    element.setPointerCapture(event.pointerId);
    element.classList.add("held");
    event.preventDefault();
    element.focus({focusVisible: false});
  });
  element.addEventListener("pointermove", (event) => {
    if (held) move(chart.point(event));
  });
  const drop = () => {
    held = false;
    element.classList.remove("held");
  };
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) element.addEventListener(end, drop);
  element.addEventListener("keydown", (event) => {
    const way = direction(event.key);
    if (!way) return;
    event.preventDefault();
    step(way, event.shiftKey);
  });
  return {
    /** Put it at a pixel; its value and the value in words. */
    at([x, y], value, words) {
      element.setAttribute("transform", `translate(${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10})`);
      element.setAttribute("aria-valuenow", String(value));
      element.setAttribute("aria-valuetext", words);
    },
    show(visible) {
      element.setAttribute("visibility", visible ? "visible" : "hidden");
    },
  };
}
