/** Each published statistic leaves fewer blocks of people that fit; the server enumerated all of them. */

import {integer} from "../../../../../static/js/lib/format.js";
import {Chart, box, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";

const TICKS = [0, 20, 40, 60, 80];
const ROW = 34; // px

/** Pure: index of a set of statistics in the server's table, one bit each. */
export const indexOf = (published) => published.reduce((sum, isPublished, i) => sum + (isPublished ? 2 ** i : 0), 0);

/** Pure: heading. */
export function conclusion(count, all) {
  if (count === 1) return `1 block of ${integer(all)} fits: every age is known`;
  return `${integer(count)} of ${integer(all)} blocks fit the published numbers`;
}

/** Pure: sentence about the people whose age is certain. */
export function sentence(names, ranges) {
  const known = names.filter((_, i) => ranges[i][0] === ranges[i][1]);
  if (!known.length) return "No age is certain yet. Each number that you publish rules out blocks.";
  if (known.length === names.length) return "Nobody was named, and only totals were published. Yet whoever reads them can write down the age of each person.";
  return `Certain by now: the age of ${known.join(" and ")}.`;
}

export function mount(element, data) {
  const speak = speaker(element);
  const boxes = [...element.querySelectorAll("[data-published]")];
  const chart = new Chart(part(element, "ages"), {
    height: data.names.length * ROW + 44, label: "The ages that are still possible for each of five people", draw: () => draw(),
  });

  function draw() {
    const [count, ranges] = data.fits[indexOf(boxes.map(({checked}) => checked))];
    const words = [conclusion(count, data.all), sentence(data.names, ranges)];
    write(element, "title", words[0], [[integer(count), "attack"]]);
    write(element, "fact", words[1]);
    speak(words.join(". "));
    if (chart.width) chart.show(rows(chart, data, ranges));
  }
  for (const published of boxes) published.addEventListener("change", draw);
  draw();
}

function rows(chart, {names, oldest}, ranges) {
  const [left, right, bottom] = [98, chart.width - 34, names.length * ROW];
  const {x} = chart.frame([0, oldest], [0, 1], [left, 0, right, bottom]);
  return [
    ...TICKS.flatMap((age) => [rule([x(age), 0], [x(age), bottom]), text([x(age), bottom + 18], age, "", "middle")]),
    text([right, bottom + 36], "age", "", "end"), line([[left, bottom], [right, bottom]], "axis"),
    ...names.flatMap((name, i) => {
      const [low, high] = ranges[i];
      const y = (i + 0.5) * ROW;
      const isKnown = low === high;
      return [
        text([0, y + 5], name, isKnown ? "attack" : ""),
        ...(isKnown
          ? [disc([x(low), y], 7, "f-attack"), text([x(low) + 14, y + 5], low, "attack halo")]
          : [box([x(low), y - 8], x(high) - x(low), 16, "f-twin light"), text([x(low) - 6, y + 5], low, "halo", "end"), text([x(high) + 6, y + 5], high, "halo")]),
      ];
    }),
  ];
}
