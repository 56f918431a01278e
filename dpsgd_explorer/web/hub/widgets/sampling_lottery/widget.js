/** Sampling lottery: three schemes with the same expected batch size, and the guarantee of each. */

import {Generator} from "../../../../../static/js/widgets/common/random.js";
import {Chart, box, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {EPOCH, PROMISE, conclusion, story} from "./draws.js";

const SCHEMES = Object.keys(EPOCH);

export function mount(element, data) {
  const speak = speaker(element);
  const play = part(element, "play");
  const state = {seed: data.seed, epochs: 1, rows: []};
  const redraw = oncePerFrame(() => draw());
  const charts = SCHEMES.map((name) => new Chart(part(element, name), {
    height: 104, label: "A bar for the size of each batch; a disc on those that use your record", draw: redraw,
  }));

  /** Draw all epochs in advance; they are shown one by one. */
  const deal = () => {
    const generator = new Generator(state.seed);
    state.rows = SCHEMES.map((name) => Array.from({length: data.epochs}, () => EPOCH[name](generator, data.records, data.batch_size)).flat());
  };

  function draw() {
    if (charts.some((chart) => !chart.width)) return;
    const shown = state.epochs * (data.records / data.batch_size);
    const rows = state.rows.map((steps) => steps.slice(0, shown));
    SCHEMES.forEach((name, i) => {
      charts[i].show(strip(charts[i], rows[i], data));
      write(element, `${name}-used`, story(rows[i]));
      write(element, `${name}-promise`, PROMISE[name](data.promises[state.epochs - 1]));
    });
    write(element, "title", conclusion(rows));
    play.textContent = state.epochs === data.epochs ? "Start again" : "Play an epoch";
    speak(`${conclusion(rows)}. Poisson: ${PROMISE.poisson(data.promises[state.epochs - 1])}`);
  }

  play.addEventListener("click", () => {
    state.epochs = (state.epochs % data.epochs) + 1;
    redraw();
  });
  part(element, "again").addEventListener("click", () => {
    state.seed += 1;
    deal();
    redraw();
  });
  deal();
}

/** Bars of the steps of one scheme, with thin lines between epochs. */
function strip(chart, steps, data) {
  const perEpoch = data.records / data.batch_size;
  const all = data.epochs * perEpoch;
  const [left, right, bottom] = [24, chart.width - 4, 84];
  const {x, y} = chart.frame([0, all], [0, data.tallest], [left, 8, right, bottom]);
  const width = 0.66 * (x(1) - x(0));
  const tops = steps.map(({size}, i) => [x(i + 0.5), y(Math.min(size, data.tallest))]);
  return [
    ...Array.from({length: data.epochs + 1}, (_, i) => rule([x(i * perEpoch), 8], [x(i * perEpoch), bottom])),
    ...Array.from({length: data.epochs}, (_, i) => text([x((i + 0.5) * perEpoch), bottom + 16], chart.width > 480 ? `epoch ${i + 1}` : i + 1, "", "middle")),
    ...tops.map(([middle, top], i) => box([middle - width / 2, top], width, bottom - top, steps[i].isYours ? "f-private" : "f-area")),
    line([[left, y(data.batch_size)], [right, y(data.batch_size)]], "thin s-ink dotted"),
    text([left - 6, y(data.batch_size) + 4], data.batch_size, "", "end"), text([left - 6, bottom + 1], "0", "", "end"),
    ...tops.filter((_, i) => steps[i].isYours).map(([middle, top]) => disc([middle, top - 1], Math.min(5.5, width / 2), "f-ink")),
    rule([left, bottom], [right, bottom], "axis"),
  ];
}
