/** Drawings of the survey: coins and sheet, an onlooker's bars, and many crowds. */

import {percent} from "../../../../../static/js/lib/format.js";
import {box, circles, clamp, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";

const SHARES = [-0.05, 0.65]; // range of shares on both axes of crowds
const word = (isYes) => (isYes ? "yes" : "no");
const face = (isHeads) => ({true: "H", false: "T"})[isHeads];

/** Two coins and a sheet; the path not taken is dotted. */
export function coins({width}, tossed) {
  const [first, second, sheet] = [[0.14 * width, 46], [0.48 * width, 128], [0.84 * width, 46]];
  const way = (points, isTaken) => line(points, isTaken ? "s-ink" : "thin s-faint dotted");
  const isTruth = tossed?.first;
  return [
    way([first, sheet], isTruth), way([first, second, sheet], tossed && !isTruth),
    text([0.48 * width, 38], "heads: the truth", "halo", "middle"),
    text([0.27 * width, 112], "tails", "halo", "end"),
    ...coin(first, face(tossed?.first)),
    ...coin(second, face(tossed?.second), tossed && isTruth),
    box([sheet[0] - 27, 10], 54, 70, "f-surface s-faint"),
    tossed?.says === null ? text([sheet[0], 50], "truth", "ink", "middle") : text([sheet[0], 54], tossed ? word(tossed.says) : "?", "word", "middle"),
    text([sheet[0], 98], "the sheet", "", "middle"),
    text([second[0], 168], "heads: yes, tails: no", "", "middle"),
  ];
}

function coin(at, words, isUnused = false) {
  return [
    disc(at, 22, isUnused ? "f-sunken s-faint" : "f-surface s-faint"), disc(at, 18, "ring s-faint"),
    text([at[0], at[1] + 6], words || "?", "word", "middle"),
  ];
}

/** Probability of the sheet's answer if the truth equals it, and if not. */
export function onlooker({width}, p, says) {
  const end = width - 52;
  const rows = [[says, p, "f-private"], [!says, 1 - p, "f-faint"]];
  return rows.flatMap(([truth, chance, fill], i) => {
    const y = 16 + 44 * i;
    return [
      text([0, y], `if the truth is ${word(truth)}`),
      box([0, y + 8], chance * end, 16, fill),
      text([chance * end + 8, y + 21], percent(chance, 0)),
    ];
  });
}

/** Shares of "yes" on the sheets and estimates for many crowds; the newest ones are dark. */
export function crowds(chart, data, survey, shares, estimates) {
  const rows = [54, 118];
  const names = ["on the sheets", "estimate"];
  const {x} = chart.frame(SHARES, [0, 1], [4, 0, chart.width - 4, 1]);
  const last = shares.length - 1;
  const at = (share, y) => [x(clamp(share, ...SHARES)), y];
  const truth = x(data.true_share);
  return [
    rule([4, 146], [chart.width - 4, 146], "axis"),
    ...[0, 0.2, 0.4, 0.6].flatMap((share) => [rule([x(share), 146], [x(share), 151], "axis"), text([x(share), 166], percent(share, 0), "", "middle")]),
    line([[truth, 20], [truth, 146]], "thin s-ink dotted"), text([truth + 6, 18], "the truth", "ink halo"),
    box([x(data.true_share - survey.error), rows[1] - 13], x(2 * survey.error) - x(0), 26, "f-wash-private"),
    ...[shares, estimates].flatMap((values, i) => [
      circles(values.slice(0, last).map((share, k) => at(share, rows[i] + 3 * (k % 5) - 6)), 4, "f-private light"),
      disc(at(values[last], rows[i]), 6, i ? "f-private" : "f-ink"),
      text([4, rows[i] - 18], names[i], "halo"),
    ]),
  ];
}
