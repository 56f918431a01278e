/** Second view of the microscope: one recorded step of a real network, with its norms as bars. */

import {grip} from "../../../../../static/js/widgets/common/drag.js";
import {integer, significant} from "../../../../../static/js/lib/format.js";
import {Chart, area, clamp, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {lengthsAt} from "./lengths.js";

const DECADES = [0.001, 0.01, 0.1, 1, 10]; // ticks of the norm axis
const FLOOR = 0.0002;

/** Pure: heading, and a sentence about the effect of C. */
export function networkWords(values, {lengths, parameters, bound}) {
  const {cut, spread, sums} = values;
  const times = significant(sums.noise / sums.clipped, 2);
  return [
    `${cut} of ${lengths.length} gradients are cut; the noise is ${times} times as long as the sum of the clipped gradients`,
    `Each of ${integer(parameters)} parameters gets noise of σC = ${significant(spread, 2)}. Together that is σC√d = ${significant(sums.noise)} long; ` +
      `in the plane of two parameters it would be ${significant(spread * Math.SQRT2, 2)}. The network learns all the same: ` +
      `along the direction of the clipped sum, ${significant(sums.clipped)} long, the noise has standard deviation σC and no more.` +
      (values.bound === bound ? "" : " The run itself continued with its own C; ε is the same with every C."),
  ];
}

/** Pure: label of a true sum whose bar does not fit; "" if it fits. */
export function beyond(sums) {
  const times = sums.true / sums.noisy;
  return times > 1 ? `${significant(times, 2)} times this` : "";
}

/** Returns a function that draws the view and sets its heading. */
export function mountNetwork(element, data, speak) {
  let bound = data.bound;
  const ends = [data.bounds[0], data.bounds.at(-1)];
  const chart = new Chart(part(element, "lengths"), {
    height: 250, role: "group", label: "The lengths of all gradients as bars, longest first, cut at C", draw: () => draw(),
  });
  const set = (to) => {
    bound = clamp(to, ...ends);
    redraw();
  };
  const handle = grip(chart, {
    label: "Clipping bound C of the network", control: "bound", range: ends,
    move: ([, y]) => set(y), step: ([dx, dy], big) => set(bound * 2 ** ((dx + dy) * (big ? 1 : 0.25))),
  });

  function draw() {
    if (!chart.width || part(element, "network").hidden) return;
    const values = {...lengthsAt(data, bound), bound};
    chart.show(bars(chart, data, values));
    handle.at([chart.width - 20, chart.y(bound)], significant(bound), `C = ${significant(bound)}; ${values.cut} gradients cut`);
    const words = networkWords(values, data);
    write(element, "title", words[0]);
    write(element, "sub", `${data.settings}; C = ${significant(bound)}`);
    write(element, "network-sentence", words[1]);
    drawTable(values);
    speak(words.join(" "));
  }

  function drawTable({sums, turns}) {
    write(element, "network-beyond", beyond(sums));
    for (const [name, size] of Object.entries(sums)) {
      part(element, `network-${name}-bar`).setAttribute("width", String(Math.min(100, (100 * size) / sums.noisy)));
      write(element, `network-${name}-sum`, significant(size));
      write(element, `network-${name}-mean`, significant(size / data.expected, 2));
      if (name in turns) write(element, `network-${name}-turn`, `${Math.round(turns[name])}°`);
    }
  }
  const redraw = oncePerFrame(draw);
  return draw;
}

/** One bar per record on an axis of norms; the part above C is pale. */
function bars(chart, {lengths}, {bound, cut}) {
  const inner = [46, 24, chart.width - 40, chart.height - 26];
  const {x} = chart.frame([0, lengths.length], [0, 1], inner);
  const y = scale([FLOOR, 2 * lengths[0]], [inner[3], inner[1]], {log: true});
  chart.y = y;
  const outline = (most) => lengths.flatMap((length, i) => [i, i + 1].map((at) => [x(at), y(Math.max(FLOOR, Math.min(length, most)))]));
  const under = (points) => [[x(0), y(FLOOR)], ...points, [x(lengths.length), y(FLOOR)]];
  const [left, right] = [Math.max(x(cut / 2), inner[0] + 46), x((cut + lengths.length) / 2)];
  return [
    ...DECADES.flatMap((value) => [rule([inner[0], y(value)], [inner[2], y(value)]), text([inner[0] - 6, y(value) + 4], value, "", "end")]),
    area(under(outline(Infinity)), "f-twin light"), area(under(outline(bound)), "f-private soft"),
    line([[inner[0], y(bound)], [chart.width - 20, y(bound)]], "s-ink"),
    text([0, 11], "length, log scale"),
    text([inner[0], chart.height - 8], `${lengths.length} records, longest gradient first`),
    ...(cut > 30 ? [text([left, inner[3] - 12], `${cut} cut to C`, "strong halo", "middle")] : []),
    ...(lengths.length - cut > 60 ? [text([right, inner[3] - 12], `${lengths.length - cut} kept`, "strong halo", "middle")] : []),
  ];
}
