/** Shared parts of the Plotly charts: layout, axes, thinned points, lines and labels. */

/** @typedef {(token: string) => string} Color reads a CSS custom property */

const FAMILY = '"--sans"';

/**
 * Layout without a frame: fixed ranges, without zoom or drag.
 * @param {Color} color
 * @param {{width: number, height: number}} size
 */
export function baseLayout(color, {width, height}, margin) {
  return {
    width,
    height,
    margin: {pad: 0, ...margin},
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: {family: color("--sans") || FAMILY, size: 13, color: color("--ink-3")},
    separators: ".,",
    showlegend: false,
    dragmode: false,
    hovermode: "x unified",
    hoverlabel: {
      bgcolor: color("--surface"),
      bordercolor: color("--rule-strong"),
      font: {family: color("--sans"), size: 13, color: color("--ink")},
    },
  };
}

/** Value axis: horizontal grid lines, no axis line. */
export function valueAxis(color, range, ticks = {}) {
  return {
    range,
    fixedrange: true,
    gridcolor: color("--chart-grid"),
    zeroline: false,
    ticklabelstandoff: 6,
    ...ticks,
  };
}

/** Horizontal axis: a line and ticks, no grid. */
export function keyAxis(color, range, ticks = {}) {
  return {
    range,
    fixedrange: true,
    showgrid: false,
    zeroline: false,
    showline: true,
    linecolor: color("--chart-axis"),
    ticks: "outside",
    ticklen: 5,
    tickangle: 0, // rotated labels would overlap the axis name
    tickcolor: color("--chart-axis"),
    ...ticks,
  };
}

/**
 * Label on a chart; `x` and `y` are in data units unless `place` sets `xref` or `yref`. Bold text uses the font's
 * weight: a tag in the text becomes a style attribute, which the content security policy blocks.
 */
export function words(text, color, {weight = 400, ...place}) {
  return {text, showarrow: false, font: {color, weight}, ...place};
}

/** Bold label, for the chart's main values. */
export function strong(text, color, place) {
  return words(text, color, {weight: 600, ...place});
}

/** Vertical line through the whole plot at `x`. */
export function wall(x, line, place = {}) {
  return {type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line, ...place};
}

/** Unit, above the value axis. */
export function unitName(text, color) {
  return words(text, color("--ink-3"), {xref: "paper", x: 0, xanchor: "right", xshift: -7, yref: "paper", y: 1, yanchor: "bottom", yshift: 7});
}

/** Name of the horizontal axis, at its right end below the ticks. */
export function axisName(text, color) {
  return words(text, color("--ink-3"), {xref: "paper", x: 1, xanchor: "right", yref: "paper", y: 0, yanchor: "top", yshift: -23});
}

/**
 * At most `limit` points: the first, the last, and the minimum and maximum of each interval between them, so that
 * peaks stay visible.
 * @template T
 * @param {T[]} points
 * @param {(point: T) => number} value
 * @returns {T[]}
 */
export function thin(points, value, limit = 1000) {
  if (points.length <= limit) return points;
  const stretches = Math.floor((limit - 2) / 2);
  const inner = points.length - 2;
  const kept = [points[0]];
  for (let i = 0; i < stretches; i += 1) {
    const from = 1 + Math.floor((i * inner) / stretches);
    const to = 1 + Math.floor(((i + 1) * inner) / stretches);
    kept.push(...extremes(points, value, from, to));
  }
  kept.push(points.at(-1));
  return kept;
}

function extremes(points, value, from, to) {
  let [low, high] = [from, from];
  for (let i = from + 1; i < to; i += 1) {
    if (value(points[i]) < value(points[low])) low = i;
    if (value(points[i]) > value(points[high])) high = i;
  }
  if (low === high) return [points[low]];
  return low < high ? [points[low], points[high]] : [points[high], points[low]];
}
