/** Slider over noise levels: the two worlds become indistinguishable, with the measured cost in accuracy. */

import {Chart, area, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const MERGED = 55; // percent of correct guesses, hardly better than a coin

/** Pure: true if the limit of any attack is close to random guessing. */
export const isMerged = ({limit}) => Number(limit) <= MERGED;

/** Pure: conclusion about a level, as a sentence. */
export function conclusion({noise, limit, accuracy}) {
  return `At σ = ${noise} the model is right on ${accuracy} of 100 unseen records. An attacker who guesses whether one record was in this run is right at most ${limit} times in 100`;
}

export function mount(element, data) {
  const slider = part(element, "noise");
  const speak = speaker(element);
  const chart = new Chart(part(element, "worlds"), {
    height: 260, label: "Two densities of what an attacker sees, with one record and without it", draw: () => draw(),
  });
  const draw = () => {
    if (!chart.width) return;
    const level = data.levels[Number(slider.value)];
    chart.show(worlds(chart, data, level));
    for (const name of ["limit", "alone", "accuracy", "epsilon"]) write(element, name, level[name]);
    write(element, "noise-words", level.noise);
    write(element, "title", conclusion(level));
    slider.setAttribute("aria-valuetext", level.noise);
    part(element, "run").search = `?${data.query}&noise_multiplier=${level.noise}`;
    speak(`${conclusion(level)}. Epsilon ${level.epsilon}.`);
  };
  slider.addEventListener("input", oncePerFrame(() => {
    draw();
    const level = data.levels[Number(slider.value)];
    element.dispatchEvent(new CustomEvent("level", {bubbles: true, detail: {...level, isMerged: isMerged(level)}}));
  }));
}

/** Densities of both worlds; the dashed density without the record does not move. */
function worlds(chart, data, level) {
  const ends = [data.places[0], data.places.at(-1)];
  const top = Math.max(...data.without);
  const {x, y} = chart.frame(ends, [0, 1.15 * top], [4, 24, chart.width - 4, chart.height - 26]);
  const curve = (values) => values.map((value, i) => [x(data.places[i]), y(value)]);
  const [without, with_] = [data.without, level.with].map(curve);
  const peak = level.with.indexOf(Math.max(...level.with));
  const isApart = peak - data.without.indexOf(top) > data.places.length / 6;
  return [
    area([[x(ends[0]), y(0)], ...with_, [x(ends[1]), y(0)]], "f-wash-private"),
    rule([0, y(0)], [chart.width, y(0)], "axis"),
    line(without, "s-private dashed"), line(with_, "s-private"),
    text([x(0) - 8, y(top) - 8], isApart ? "without it" : "without it, dashed; with it, full", "private halo", isApart ? "middle" : "start"),
    ...(isApart ? [text([x(data.places[peak]), y(level.with[peak]) - 8], "with the record", "private halo", "middle")] : []),
    text([chart.width - 4, chart.height - 8], "the attacker’s best summary of the run →", "", "end"),
  ];
}
