/** What the charts share: ground, type, fixed axes, and the lines and words on them. */

/** @typedef {(token: string) => string} Color reads a CSS custom property */

const FAMILY = '"--sans"';

/**
 * A layout without a frame of its own: ranges stay as given, nothing zooms or drags.
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

/** A value axis: horizontal hairlines, no line of its own, the unit at its top. */
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

/** The other axis: a line and ticks, no grid. */
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
    tickangle: 0, // turned labels would lie on the axis's name
    tickcolor: color("--chart-axis"),
    ...ticks,
  };
}

/**
 * Words on a chart; `x` and `y` are data unless `place` says otherwise. Weight goes by the
 * font: a tag in the text becomes a style attribute, which the content policy refuses.
 */
export function words(text, color, {weight = 400, ...place}) {
  return {text, showarrow: false, font: {color, weight}, ...place};
}

/** As `words`, for what the chart is about. */
export function strong(text, color, place) {
  return words(text, color, {weight: 600, ...place});
}

/** A vertical line through the whole plot at `x`. */
export function wall(x, line, place = {}) {
  return {type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line, ...place};
}

/** The unit, at the top of the value axis. */
export function unitName(text, color) {
  return words(text, color("--ink-3"), {xref: "paper", x: 0, xanchor: "right", xshift: -7, yref: "paper", y: 1, yanchor: "bottom", yshift: 7});
}

/** The name of the other axis, at its right end below the ticks. */
export function axisName(text, color) {
  return words(text, color("--ink-3"), {xref: "paper", x: 1, xanchor: "right", yref: "paper", y: 0, yanchor: "top", yshift: -23});
}
