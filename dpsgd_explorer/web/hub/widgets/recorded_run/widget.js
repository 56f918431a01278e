/** Replay of a recorded run: accuracy against ε, with a slider over the evaluations. */

import {decimals, integer} from "../../../../../static/js/lib/format.js";
import {player} from "../../../../../static/js/lib/player.js";
import {Chart, clipped, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const NARROW = 500; // px
const ROOM = 1.08; // end of the ε axis, in budgets

/** Pure: heading at an evaluation. */
export function conclusion({steps, last, spent_words: spent, budget, accuracy, twin}, index) {
  const beside = twin ? `; without privacy, ${decimals(twin[index])}` : "";
  return `After ${integer(steps[index])} of ${integer(last)} steps: ε = ${spent[index]} of ${budget} spent, ${decimals(accuracy[index])} of 100 unseen records right${beside}`;
}

/** Pure: round values from low to high, in at most `most` steps of 1, 2 or 5 times a power of ten. */
export function ticks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({length: Math.floor(high / step + 1e-9) - first + 1}, (_, i) => Number(((first + i) * step).toPrecision(6)));
}

export function mount(element, data) {
  const speak = speaker(element);
  const door = part(element, "door");
  let run = data.runs[0];
  let shown = 0;
  const chart = new Chart(part(element, "curves"), {
    height: (width) => (width < NARROW ? 280 : 360), label: "Test accuracy against the ε that was spent, up to the step that is shown", draw: () => draw(shown),
  });

  function draw(index) {
    shown = index;
    if (!chart.width) return;
    chart.show(curves(chart, run, index));
    const words = conclusion(run, index);
    write(element, "title", words, [[run.spent_words[index], "budget"], [decimals(run.accuracy[index]), "private"], [run.twin ? decimals(run.twin[index]) : "", "twin"]]);
    speak(words);
  }
  const play = player(element, {words: (index) => integer(run.steps[index]), show: draw});
  const choose = (chosen) => {
    run = chosen;
    door.search = `?${run.query}`;
    write(element, "sub", run.settings);
    play.reset(run.steps.length - 1);
  };
  part(element, "run").addEventListener("change", ({target}) => choose(data.runs[Number(target.value) - 1]));
  choose(run);
}

/** Curves up to an evaluation; values below the axis are cut off. */
function curves(chart, {spent, accuracy, twin, floor, budget}, index) {
  const isNarrow = chart.width < NARROW;
  const end = spent.at(-1);
  const [left, top, right, bottom] = [34, 26, chart.width - 10, chart.height - 44];
  const {x, y} = chart.frame([0, ROOM * end], [floor, 100], [left, top, right, bottom]);
  const marks = [text([0, 12], "accuracy, %"), {name: "rect", attributes: {class: "f-wash-budget", x: x(end), y: top, width: right - x(end), height: bottom - top}}];
  for (const percent of ticks(floor, 100, 5)) {
    marks.push(rule([left, y(percent)], [right, y(percent)]), text([left - 8, y(percent) + 4.5], percent, "", "end"));
  }
  marks.push(rule([left, bottom], [right, bottom], "axis"), text([right, bottom + 37], "ε spent", "", "end"));
  for (const value of ticks(0, end, isNarrow ? 3 : 6)) {
    marks.push(rule([x(value), bottom], [x(value), bottom + 5], "axis"), text([x(value), bottom + 19], value, "", "middle"));
  }
  const upTo = (values) => values.slice(0, index + 1).map((value, i) => [x(spent[i]), y(value)]);
  const tip = [x(spent[index]), y(accuracy[index])];
  marks.push(...clipped([left, top - 8, right, bottom + 1], [
    ...(twin ? [line(upTo(twin), "s-twin thin dashed")] : []),
    line(upTo(accuracy), "s-private"),
  ]), line([[x(end), top], [x(end), bottom]], "s-budget"));
  const isLate = spent[index] > 0.8 * end; // the label is below the curve where it is flat, otherwise next to it
  const name = isLate ? [tip[0] - 12, tip[1] + 26] : [tip[0] + 12, tip[1] + 16];
  marks.push(text([x(end) - 8, bottom - 12], `budget ε = ${budget}`, "budget halo", "end"));
  if (tip[1] < bottom) marks.push(disc(tip, 5, "f-private"), text(name, "private", "private halo", isLate ? "end" : "start"));
  if (twin) marks.push(text([x(0.55 * end), y(twin.at(-1)) - 8], isNarrow ? "same batches, not private" : "the same batches without clipping and noise: not private", "twin halo", "middle"));
  return marks;
}
