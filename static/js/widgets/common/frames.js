/** Figures with a slider: dots ride along their lines, lines grow, and the title follows; see web/figures/frames.py. */

import {player} from "../../lib/player.js";
import {write} from "./widget_parts.js";

/** Pure: the points of a path of straight lines, "M1 2L3 4". @returns {[number, number][]} */
export function pointsOf(path) {
  return path.slice(1).split("L").map((pair) => pair.split(" ").map(Number));
}

/** Pure: the path from the first point to the one at a position. */
export function pathUntil(points, position) {
  return `M${points.slice(0, position + 1).map((point) => point.join(" ")).join("L")}`;
}

/** Returns a function that moves one dot and the end of its line to a position, and sets its text. */
function track(group) {
  const line = group.querySelector("path");
  const rider = group.querySelector("[data-rider]");
  const points = pointsOf(line.getAttribute("d"));
  const words = JSON.parse(group.dataset.words ?? "null");
  return (position) => {
    rider.setAttribute("transform", `translate(${points[position].join(" ")})`);
    if (words) group.querySelector("text").textContent = words[position];
    if ("grows" in group.dataset) line.setAttribute("d", pathUntil(points, position));
  };
}

/** @param {HTMLElement} figure */
function start(figure) {
  const {places, titles} = JSON.parse(figure.dataset.frames);
  const tracks = [...figure.querySelectorAll("[data-track]")].map(track);
  player(figure, {
    words: (position) => places[position],
    show(position) {
      for (const move of tracks) move(position);
      write(figure, "title", titles[position]);
    },
  }).draw();
}

if (globalThis.document) document.querySelectorAll("[data-frames]").forEach(start);
