/**
 * Context of the accuracy chart: lines of other runs, thin and labelled.
 *
 * @typedef {object} Ghost
 * @property {string} id
 * @property {string} label
 * @property {(import("../runs/log/run_log.js").Evaluation & {drawn_at?: number | null})[]} points drawn_at: the ε at which a
 *   point that spends nothing stands
 * @property {"recorded" | "twin" | "prediction" | "run"} [look] a run by default
 * @property {boolean} [yields] drawn only ahead of the line of the run
 */

import {percent} from "../lib/format.js";
import {fanned} from "../lib/svg.js";
import {heightOf} from "./accuracy_axis.js";
import {words} from "./base.js";
import {thin} from "./scale.js";

const DASHES = ["solid", "dot", "dashdot", "longdashdot"]; // tells pinned runs apart
const LOOKS = {
  recorded: {line: "--series-private", text: "--text-private", opacity: 0.6},
  twin: {line: "--series-twin", text: "--text-twin", dash: "dash"},
  prediction: {line: "--ink", text: "--ink", symbol: "diamond-open", size: 10},
  run: {line: "--ink-3", text: "--ink-3"},
};
const GAP = 17; // px between the labels
const LONGEST = 28; // letters of a label on the chart

/** How each ghost is drawn, here and in the list below the chart. @param {Ghost[]} ghosts */
export function looks(ghosts) {
  const runs = ghosts.filter(({look = "run"}) => look === "run");
  return ghosts.map((ghost) => ({dash: DASHES[runs.indexOf(ghost) % DASHES.length] ?? "solid", ...LOOKS[ghost.look ?? "run"]}));
}

/**
 * The points of each ghost that the chart shows.
 * @param {Ghost[]} ghosts
 * @param {(point: object) => number | null} x of a point, null where it has none
 * @param {number} end of the horizontal axis
 * @param {(point: object) => boolean} isAhead whether the run has not overtaken a point
 */
export function visible(ghosts, x, end, isAhead) {
  const isOn = (point) => x(point) !== null && x(point) <= end;
  return ghosts.map(({points, yields}) => thin(points.filter((point) => isOn(point) && (!yields || isAhead(point))), (point) => point.test_accuracy));
}

/** @param {Ghost[]} ghosts @param {object[][]} shown as `visible` returns them */
export function ghostTraces(ghosts, shown, {x, range, hover}, color) {
  const drawn = looks(ghosts);
  return ghosts.flatMap(({label}, i) => {
    const points = shown[i];
    const {line, dash, opacity = 1, symbol = "circle", size = 5} = drawn[i];
    if (points.length === 0) return [];
    return [{
      type: "scatter",
      mode: points.length === 1 ? "markers" : "lines",
      x: points.map(x),
      y: points.map((point) => heightOf(point, range)),
      customdata: points.map((point) => `${label}: ${hover(point)}`),
      hovertemplate: "%{customdata}<extra></extra>",
      opacity,
      line: {color: color(line), width: 1.25, dash},
      marker: {color: color(line), size, symbol},
    }];
  });
}

/**
 * The names of the ghosts, one under another in the order of their ends, below the lowest of them: the lines of
 * accuracies rise, so the room is free there.
 * @param {(height: number) => number} pixel px of a height below the top of the plot
 * @param {number} top px below which the names begin; `floor`: above which they end
 * @param {number} end of the names on the horizontal axis
 */
export function ghostLabels(ghosts, shown, {x, range, pixel, top, floor, end}, color) {
  const drawn = looks(ghosts);
  const ends = shown.flatMap((points, i) => (points.length ? [{i, last: points.at(-1), at: pixel(heightOf(points.at(-1), range))}] : []));
  if (ends.length === 0) return [];
  const right = Math.min(end, Math.max(...ends.map(({last}) => x(last))));
  const begin = Math.max(top, Math.min(Math.max(...ends.map(({at}) => at)) + 2.1 * GAP, floor - GAP * ends.length));
  const places = fanned(ends.map(({at}) => at), GAP, begin).map((place, k) => Math.max(place, begin) - ends[k].at);
  return ends.map(({i, last}, k) => words(`${short(ghosts[i].label)}, ${percent(last.test_accuracy)}`, color(drawn[i].text), {
    x: right, xanchor: "right", xshift: -12, y: heightOf(last, range), yshift: -places[k], bgcolor: color("--surface"),
  }));
}

function short(label) {
  return label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label;
}
