/** Recorded accuracy of each digit at one level of privacy, with one rare digit: its gap to the average. */

import {Chart, circles, diamond, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {greyPicture} from "../../../../../static/js/widgets/common/grey.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const ROW = 16; // px
const TOP = 24; // px, for the label of the average
const FOOT = 44; // px, for the axis
const TICK = 10; // percent

/** Pure: rows of the chart: all digits, then the rare digit when it is frequent. */
export function rows({rare}, {digits, frequent}) {
  return [
    ...digits.map((reading, digit) => ({...reading, name: digit === rare ? `${digit}, rare` : String(digit), colour: digit === rare ? "attack" : "twin"})),
    {...frequent, name: String(rare), colour: "private"},
  ];
}

/** Pure: predictions for the rare digit, rare and frequent, at their rows; missing ones are left out. */
export function placed(guesses, rare, last) {
  return guesses.map(({value, words}, i) => ({row: i === 0 ? rare : last, value, words})).filter(({value}) => value !== null);
}

export function mount(element, data) {
  const speak = speaker(element);
  const count = data.levels[0].digits.length + 2; // one additional row for the labels above the last row
  let level = data.levels[data.first];
  let guesses = [];
  const chart = new Chart(part(element, "digits"), {
    height: TOP + count * ROW + FOOT, label: "Right predictions of each digit in percent, with the seeds, and a line at the average", draw: () => draw(),
  });

  const answers = data.pictures.map((shades) => {
    const answer = document.createElement("b");
    const item = document.createElement("li");
    item.append(greyPicture(shades, `A handwritten ${data.rare}`), "read as ", answer);
    part(element, "pictures").append(item);
    return answer;
  });

  function draw() {
    if (chart.width) chart.show(dots(chart, data, level, level === data.levels[data.first] ? guesses : []));
    for (const [i, answer] of answers.entries()) {
      answer.textContent = level.answers[i];
      answer.className = level.answers[i] === data.rare ? "said-ink" : "said-attack";
    }
    write(element, "misread", level.misread);
    write(element, "title", level.conclusion);
    write(element, "sub", data.settings);
    write(element, "change", level.change);
    speak(`${level.conclusion}. ${level.misread}. ${level.change}`);
  }
  for (const [i, input] of element.querySelectorAll("[data-level]").entries()) {
    input.addEventListener("change", () => {
      level = data.levels[i];
      draw();
    });
  }
  element.addEventListener("guessed", ({detail}) => {
    guesses = placed(detail, data.rare, level.digits.length);
    draw();
  });
}

/** One row per digit: mean, seeds and number; the average is a line through all rows. */
function dots(chart, data, level, guesses) {
  const [left, right, bottom] = [64, chart.width - 50, chart.height - FOOT];
  const {x} = chart.frame(data.axis, [0, 1], [left, TOP, right, bottom]);
  const last = level.digits.length;
  const middle = (row) => TOP + (row + 0.5 + (row === last)) * ROW;
  const marks = [];
  for (let percent = data.axis[0]; percent <= data.axis[1]; percent += TICK) {
    marks.push(rule([x(percent), TOP], [x(percent), bottom]), text([x(percent), bottom + 19], percent, "", "middle"));
  }
  marks.push(rule([left, bottom], [right, bottom], "axis"), text([right, bottom + 37], "right predictions, %", "", "end"));
  const average = x(level.average.mean);
  marks.push(line([[average, TOP - 4], [average, TOP + last * ROW]], "s-ink thin dashed"), text([average, 12], `average ${level.average.words} %`, "strong halo", "end"));
  marks.push(text([left, middle(last) - ROW + 4.5], data.frequent, "private halo"));
  for (const [row, {name, colour, mean, each, words}] of rows(data, level).entries()) {
    const y = middle(row);
    marks.push(
      rule([left, y], [right, y]), text([left - 10, y + 4.5], name, colour, "end"),
      disc([x(mean), y], 6, `f-${colour}`), circles(each.map((share) => [x(share), y]), 2, "f-ink"),
      text([right + 10, y + 4.5], words, colour),
    );
  }
  const rare = middle(data.rare);
  const from = x(level.digits[data.rare].mean) + 10;
  marks.push(line([[from, rare], [average, rare]], "s-attack thin"));
  return [...marks, ...guesses.flatMap(({row, value, words}) => {
    const at = [x(value), middle(row)];
    const isRight = at[0] > (left + right) / 2;
    return [diamond(at, 7, "guess-mark"), text([at[0] + (isRight ? -13 : 13), at[1] - 7], `you: ${words}`, "ink halo", isRight ? "end" : "start")];
  })];
}
