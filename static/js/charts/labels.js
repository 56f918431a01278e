/**
 * Positions of the labels of a chart. A label is inside the plot and 4 px from every line, every box and the labels
 * before it. A label without such a place is not drawn: the heading, the status bar or the table has its number.
 *
 * @typedef {[number, number]} Point px from the upper left corner of the plot
 * @typedef {{x: number, y: number, w: number, h: number}} Box
 *
 * @typedef {object} Label
 * @property {string} text
 * @property {Point[]} anchors points that it may stand next to, the best first
 * @property {Point[]} [ways] directions from an anchor, the best first
 * @property {boolean} [mayCross] if true, its leader line may cross lines if there is no other place
 *
 * @typedef {object} Surroundings
 * @property {number} width of the plot @property {number} height of the plot
 * @property {Point[][]} lines
 * @property {Box[]} [boxes] marks
 * @property {(text: string) => number} [widthOf] px
 */

export const CLEAR = 4; // px between a label and everything else
const LINE = 17; // px, height of a label
const LEADER = 20; // px from the anchor from which a label has a leader line
const NEAR = 8; // px, largest horizontal distance of a label above or below its anchor
const START = 7; // px from the anchor to the leader line
const STEPS = [6, 12, 20, 32, 48, 68, 92]; // px from the anchor to the label
export const SIDES = [[-1, 0], [1, 0]];
export const OVER_UNDER = [[0, -1], [0, 1]];
const AROUND = [[-1, -1], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 1], [-1, 0], [1, 0]];
const NARROW = /[ .,:;|'ijlt]/g;

/** Width of a label in a font that is not known, as in a saved picture. */
export const wideWidth = (text) => 8.2 * text.length;

/** Width of a label of 13 px: measured in a browser, estimated without one. */
export function labelWidth(text) {
  const {document} = globalThis;
  if (!document?.createElement) return 7.6 * text.length - 3.2 * (text.match(NARROW)?.length ?? 0);
  labelWidth.canvas ??= document.createElement("canvas").getContext("2d");
  labelWidth.canvas.font = (labelWidth.font ??= `600 13px ${getComputedStyle(document.body).fontFamily}`);
  return labelWidth.canvas.measureText(text).width;
}

/**
 * Pure: a place for each label, in their order, the most important first.
 * @param {Label[]} labels @param {Surroundings} surroundings
 * @returns {(Box & {leader: [Point, Point] | null} | null)[]}
 */
export function placeLabels(labels, {width, height, lines, boxes = [], widthOf = labelWidth}) {
  const taken = [...boxes];
  const parts = lines.flatMap((points) => points.slice(1).map((to, i) => [points[i], to]));
  const isFree = (box) =>
    isInside(box, width, height) && !taken.some((other) => overlap(box, other, CLEAR)) && !parts.some(([p, q]) => touches(p, q, grown(box, CLEAR)));
  const settled = (place) => {
    taken.push(place);
    if (place.leader) parts.push(place.leader); // the next labels stay clear of it
    return place;
  };
  return labels.map(({text, anchors, ways = AROUND, mayCross = false}) => {
    const w = Math.ceil(widthOf(text)) + 2;
    let crossing = null;
    for (const {anchor, way, away} of candidates(anchors, ways)) {
      const box = beside(anchor, way, away, w);
      if (!isFree(box)) continue;
      const leader = away >= LEADER ? leaderTo(box, anchor) : null;
      if (leader && taken.some((other) => !contains(other, anchor) && touches(...leader, grown(other, 2)))) continue;
      if (leader && parts.some(([p, q]) => cross(...leader, p, q))) {
        crossing ??= {...box, leader};
        continue;
      }
      return settled({...box, leader});
    }
    return mayCross && crossing ? settled(crossing) : null;
  });
}

/** Places to try, the best first: near, in the first directions, at the first anchors. */
function candidates(anchors, ways) {
  const all = anchors.flatMap((anchor, a) => ways.flatMap((way, k) => STEPS.map((away) => ({anchor, way, away, cost: 3 * away + 4 * k + 5 * a}))));
  return all.sort((one, other) => one.cost - other.cost);
}

/** Some points of a line as anchors: its end, then points further back. @param {Point[]} points */
export function alongLine(points) {
  return [1, 0.75, 0.5, 0.3].map((share) => points[Math.round(share * (points.length - 1))]);
}

function beside([x, y], [right, down], away, w) {
  const along = down === 0 ? away : Math.min(away, NEAR);
  return {
    x: right < 0 ? x - along - w : right > 0 ? x + along : x - w / 2,
    y: down < 0 ? y - away - LINE : down > 0 ? y + away : y - LINE / 2,
    w,
    h: LINE,
  };
}

function isInside({x, y, w, h}, width, height) {
  return x >= 2 && y >= 2 && x + w <= width - 2 && y + h <= height - 2;
}

const contains = ({x, y, w, h}, [px, py]) => px >= x && px <= x + w && py >= y && py <= y + h; // the mark that the label is for
const grown = ({x, y, w, h}, by) => ({x: x - by, y: y - by, w: w + 2 * by, h: h + 2 * by});

/** True if two boxes are less than `gap` px apart. @param {Box} a @param {Box} b */
export function overlap(a, b, gap = 0) {
  return a.x < b.x + b.w + gap && b.x < a.x + a.w + gap && a.y < b.y + b.h + gap && b.y < a.y + a.h + gap;
}

/** True if a segment touches a box (Liang and Barsky). @param {Point} from @param {Point} to @param {Box} box */
export function touches([x0, y0], [x1, y1], {x, y, w, h}) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  let [first, last] = [0, 1];
  for (const [p, q] of [[-dx, x0 - x], [dx, x + w - x0], [-dy, y0 - y], [dy, y + h - y0]]) {
    if (p === 0 && q < 0) return false;
    if (p === 0) continue;
    if (p < 0) first = Math.max(first, q / p);
    else last = Math.min(last, q / p);
    if (first > last) return false;
  }
  return true;
}

/** From near the anchor to the closest point of the box. */
function leaderTo({x, y, w, h}, [ax, ay]) {
  const to = [Math.min(Math.max(ax, x), x + w), Math.min(Math.max(ay, y), y + h)];
  const length = Math.hypot(to[0] - ax, to[1] - ay) || 1;
  return [[ax + (START * (to[0] - ax)) / length, ay + (START * (to[1] - ay)) / length], to];
}

const side = ([ax, ay], [bx, by], [cx, cy]) => (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
const cross = (a, b, c, d) => side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;

/**
 * Labels as Plotly annotations and leader lines; labels without a place are left out.
 * @param {(Label & {color: string, weight?: number})[]} labels @param {Surroundings} surroundings @param {string} lead
 *   colour of the leader lines
 */
export function annotated(labels, surroundings, lead) {
  const {width, height} = surroundings;
  const placed = placeLabels(labels, surroundings).map((box, i) => box && {...labels[i], ...box}).filter(Boolean);
  const end = ([x, y], i) => ({[`x${i}`]: x / width, [`y${i}`]: 1 - y / height});
  return {
    annotations: placed.map(({text, color, weight = 400, x, y}) => ({
      text, font: {color, weight}, showarrow: false, xref: "paper", x: 0, xanchor: "left", xshift: x, yref: "paper", y: 1, yanchor: "top", yshift: -y, borderpad: 0,
    })),
    shapes: placed.filter(({leader}) => leader).map(({leader: [from, to]}) => ({
      type: "line", xref: "paper", yref: "paper", ...end(from, 0), ...end(to, 1), line: {color: lead, width: 1},
    })),
  };
}
