/** People of a table who share the facts that one knows about a person; the counts were recorded. */

import {integer} from "../../../../../static/js/lib/format.js";
import {mark24} from "../../../../../static/js/widgets/common/odd_record.js";
import {Chart, circles, line, rule, scale, text} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const MOST_DOTS = 400;
const GAP = 15; // px between two people

/** Pure: index of a set of facts in the server's table, one bit each. */
export const indexOf = (known) => known.reduce((sum, isKnown, i) => sum + (isKnown ? 2 ** i : 0), 0);

/** Pure: heading. */
export function conclusion(count, left, people) {
  const facts = count === 0 ? "Nothing known" : `${count} ${count === 1 ? "fact" : "facts"} known`;
  return left === 1 ? `${facts}: found, as 1 of ${integer(people)} people` : `${facts}: ${integer(left)} of ${integer(people)} people are left`;
}

/** Pure: sentence about everybody in the table. */
export function sentence(count, alone) {
  if (count === 0) return "The table has no names. Tick a few facts that a colleague or a neighbour would know.";
  return `Of all people in the table, ${alone} stand alone with the same kinds of facts.`;
}

export function mount(element, data) {
  const speak = speaker(element);
  const boxes = [...element.querySelectorAll("[data-fact]")];
  const chart = new Chart(part(element, "left"), {height: 180, label: "The people who are left, each a dot, with the person who is searched for", draw: () => draw()});

  function draw() {
    const known = boxes.map(({checked}) => checked);
    const count = known.filter(Boolean).length;
    const left = data.left[indexOf(known)];
    const words = [conclusion(count, left, data.people), sentence(count, data.alone[indexOf(known)])];
    write(element, "title", words[0], [[left === 1 ? "found" : `${integer(left)} `, "attack"]]);
    write(element, "fact", words[1]);
    speak(words.join(". "));
    if (chart.width) chart.show(crowd(chart, left, data.people));
  }
  for (const fact of boxes) fact.addEventListener("change", draw);
  draw();
}

/** A bar on a log scale, and a crowd of at most 400 dots with the person among them. */
function crowd({width}, left, people) {
  const x = scale([1, people], [8, width - 8], {log: true});
  const columns = Math.max(1, Math.floor((width - 16) / GAP));
  const shown = Math.min(left, MOST_DOTS, columns * 8);
  const at = (i) => [8 + GAP * (i % columns), 62 + GAP * Math.floor(i / columns)];
  return [
    rule([x(1), 22], [x(people), 22], "axis"), line([[x(1), 22], [x(left), 22]], "s-attack fat"),
    ...[1, 10, 100, 1000, 10000].map((value) => text([x(value), 42], integer(value), "", value === 1 ? "start" : "middle")),
    text([width - 8, 12], "people left, log scale", "", "end"),
    circles(Array.from({length: shown - 1}, (_, i) => at(i + 1)), 4, "f-twin soft"), ...mark24(at(0)),
  ];
}
