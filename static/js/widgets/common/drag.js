/** The ink disc of a chart: drag it, or focus it and press arrow keys. */

import {make} from "../../lib/svg.js";

const DIRECTIONS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};

/** Pure: the direction of a key, x to the right and y up; null for other keys. */
export function direction(key) {
  return DIRECTIONS[key] ?? null;
}

/** Pure: "hidden", "locked" or "free", of a control by the lists that a widget's address set. */
export function stateOf(control, {hidden = "", locked = ""}) {
  const names = (list) => list.split(" ");
  if (names(hidden).includes(control)) return "hidden";
  return names(locked).includes(control) ? "locked" : "free";
}

/**
 * @param {import("../../lib/svg.js").Chart} chart
 * @param {{label: string, control: string, range: [number, number], move: (to: [number, number]) => void,
 *   step: (direction: [number, number], big: boolean) => void, role?: string}} options
 *   `move` gets data units, `step` a direction per key press; Shift makes it big. `range` are the ends of the value.
 *   A `control` that the page's address hides or locks cannot be moved; its "start" event moves it all the same.
 */
export function grip(chart, {label, control, range, move, step, role = ""}) {
  const state = stateOf(control, chart.svg.closest("[data-widget]").dataset);
  const isFree = state === "free";
  const element = make({
    name: "g",
    attributes: {
      class: isFree ? "grip" : "grip locked", tabindex: isFree ? 0 : "", "aria-disabled": isFree ? "" : "true", role: "slider", "aria-label": label, "aria-roledescription": role,
      "aria-valuemin": range[0], "aria-valuemax": range[1], "data-grip": control,
    },
    content: [
      {name: "circle", attributes: {class: "grip-area", r: 22}},
      {name: "circle", attributes: {class: "handle", r: 9}},
      {name: "circle", attributes: {class: "handle-ring", r: 10.5}},
    ],
  });
  chart.grips.append(element);
  let isShown = true;
  let hasValue = false; // before it is first drawn it has no place and says no value
  const settle = () => element.setAttribute("visibility", isShown && hasValue && state !== "hidden" ? "visible" : "hidden");
  settle();
  element.addEventListener("start", ({detail}) => move(detail));
  if (isFree) follow(element, (event) => move(chart.point(event)), step);
  return {
    /** Put it at a pixel; its value and the value in words. */
    at([x, y], value, words) {
      element.setAttribute("transform", `translate(${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10})`);
      element.setAttribute("aria-valuenow", String(value));
      element.setAttribute("aria-valuetext", words);
      hasValue = true;
      settle();
    },
    show(visible) {
      isShown = visible;
      settle();
    },
  };
}

/** Move with the pointer that holds the element, and with arrow keys. */
function follow(element, move, step) {
  let held = false;
  element.addEventListener("pointerdown", (event) => {
    held = true;
    element.setPointerCapture(event.pointerId);
    element.classList.add("held");
    event.preventDefault();
    element.focus({focusVisible: false});
  });
  element.addEventListener("pointermove", (event) => {
    if (held) move(event);
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
}
