/** Digits that a fine-tuned language model says after the start of a sentence; the models were recorded. */

import {decimals, integer} from "../../../../../static/js/lib/format.js";
import {Chart, box, rule, text} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const ROW = 18; // px
const TOP = 34; // px, for the digits that the model says
const LEFT = 26; // px, for the names of the digits
const GAP = 14; // px between two places

/** Pure: heading, the sentence as the model ends it. */
export const conclusion = (start, {number}) => `“${start}${number}”`;

/** Pure: sentence about the model's answer, and about the promise. */
export function sentence({number, rank, bits_per_byte: bits}, truth, promise) {
  const answer = number === truth ? `The model says her number: of all ${integer(10 ** truth.length)} it is the most likely.` : `Her number, ${truth}, is number ${integer(rank)} of ${integer(10 ** truth.length)} by the model’s odds.`;
  return `${answer} Other people’s sentences need ${decimals(bits)} bits per byte. ${promise}`;
}

export function mount(element, data) {
  const speak = speaker(element);
  const [copies, ways] = ["copies", "way"].map((name) => [...element.querySelectorAll(`[data-${name}]`)]);
  const chosen = (inputs) => inputs.find(({checked}) => checked).value;
  const chart = new Chart(part(element, "digits"), {
    height: TOP + 10 * ROW, label: "The share of each digit at each of four places, as the model sees it", draw: () => draw(),
  });

  function draw() {
    const found = data.answers[Number(chosen(copies))];
    const way = Object.keys(data.ways)[Number(chosen(ways))];
    const answer = found[way];
    const promise = way === "private" ? `Promised: ${found.guarantee}.` : "Not private: nothing is promised.";
    const colour = answer.number === data.number ? "attack" : way === "private" ? "private" : "twin";
    const words = [conclusion(data.start, answer), sentence(answer, data.number, promise)];
    write(element, "title", words[0], [[answer.number, colour]]);
    write(element, "sub", "Bars: how likely the model thinks each digit, at each of the four places");
    write(element, "fact", words[1]);
    speak(words.join(" "));
    if (chart.width) chart.show(places(chart, data.number, answer, way));
  }
  for (const input of [...copies, ...ways]) input.addEventListener("change", draw);
  draw();
}

/** Four places side by side, a bar for each digit; the bars of the true digits are the attacker's. */
function places({width}, truth, {number, digits}, way) {
  const space = (width - LEFT + GAP) / 4;
  const colour = (place, digit) => (Number(truth[place]) === digit ? "attack" : way === "private" ? "private" : "twin");
  return [
    ...digits[0].map((_, digit) => text([0, TOP + (digit + 0.75) * ROW], digit)),
    ...digits.flatMap((shares, place) => {
      const left = LEFT + place * space;
      return [
        text([left, 24], number[place], `said ${number[place] === truth[place] ? "attack" : "ink"}`),
        ...shares.flatMap((share, digit) => {
          const y = TOP + digit * ROW;
          return [rule([left, y + ROW / 2], [left + space - GAP, y + ROW / 2]), box([left, y + 4], Math.max(2, share * (space - GAP)), ROW - 8, `f-${colour(place, digit)}`)];
        }),
      ];
    }),
  ];
}
