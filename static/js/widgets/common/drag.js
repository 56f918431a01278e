/** Draggable handle of a chart, also moved by arrow keys. */

import {make} from "../../lib/svg.js";

const DIRECTIONS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};

/** Pure: direction of a key, x to the right and y up; null for other keys. */
export function direction(key) {
  return DIRECTIONS[key] ?? null;
}

/** Pure: "hidden", "locked" or "free" for a control, from the lists in the page's address. */
export function stateOf(control, {hidden = "", locked = ""}) {
  const names = (list) => list.split(" ");
  if (names(hidden).includes(control)) return "hidden";
  return names(locked).includes(control) ? "locked" : "free";
}

/**
 * Create a handle.
 * @param {import("../../lib/svg.js").Chart} chart
 * @param {{label: string, control: string, range: [number, number], move: (to: [number, number]) => void, step: (direction: [number, number], big: boolean) => void, role?: string}} options
 * `move` receives data units, `step` a direction per key press, `big` with Shift. `range`: ends of the value.
 * A `control` that the page's address hides or locks cannot be moved; a "start" event moves it anyway.
 */
export function grip(chart, {label, control, range, move, step, role = ""}) {
  const state = stateOf(control, chart.svg.closest("[data-widget]")?.dataset ?? {});
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
  let hasValue = false; // hidden until it has a position and a value
  const settle = () => element.setAttribute("visibility", isShown && hasValue && state !== "hidden" ? "visible" : "hidden");
  settle();
  element.addEventListener("start", ({detail}) => move(detail));
  if (isFree) follow(element, (event) => move(chart.point(event)), step);
  return {
    /** Set its position in pixels, its value, and the value as text; `starts`: numbers of a "start" event that leads here. */
    at([x, y], value, words, starts = [value]) {
      element.setAttribute("transform", `translate(${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10})`);
      element.setAttribute("aria-valuenow", String(value));
      element.setAttribute("aria-valuetext", words);
      element.dataset.at = starts.join(",");
      hasValue = true;
      settle();
    },
    show(visible) {
      isShown = visible;
      settle();
    },
  };
}

/** Connect the pointer and the arrow keys. */
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
