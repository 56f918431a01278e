/** Diary of releases under one budget, with three modes. */

import {tableRow} from "../../../../../static/js/lib/page.js";
import {Chart, disc, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {conclusion, enter, history, promise, refusal} from "./diary.js";

const LEAST = 6; // smallest number of releases on the axis

export function mount(element, data) {
  const speak = speaker(element);
  const ways = [...element.querySelectorAll("[data-way]")];
  const way = () => Number(ways.find((radio) => radio.checked).value);
  const label = Object.fromEntries(data.kinds.map((entry) => [entry.kind, entry.label]));
  let diary = {entries: [], refused: null};
  let release = "";
  const redraw = oncePerFrame(() => draw());
  const chart = new Chart(part(element, "chart"), {
    height: 250, label: "Two rising lines over the releases, added up and together, below the budget", draw: redraw,
  });

  function draw() {
    const rows = history(diary.entries, data);
    const words = [conclusion(diary.entries, data, rows.at(-1))];
    words.push(diary.refused ? refusal(label[release], way(), diary.refused, data) : promise(diary.entries, way(), data, rows.at(-1)));
    write(element, "title", words[0]);
    write(element, "fact", words[1]);
    speak(words.join(". "));
    part(element, "rows").replaceChildren(...diary.entries.map((kind, i) => {
      const [added, together, filtered] = rows[i + 1];
      return tableRow([label[kind]], [added, together, `${filtered} %`]);
    }));
    if (chart.width) chart.show(lines(chart, rows, data));
  }

  for (const button of element.querySelectorAll("[data-release]")) {
    button.addEventListener("click", () => {
      release = button.dataset.release;
      diary = enter(diary.entries, release, way(), data);
      redraw();
    });
  }
  const start = () => {
    diary = {entries: [], refused: null};
    redraw();
  };
  part(element, "new").addEventListener("click", start);
  for (const radio of ways) radio.addEventListener("change", start);
}

function lines(chart, rows, {budget}) {
  const most = Math.max(LEAST, rows.length - 1);
  const top = Math.max(1.2 * budget, 1.1 * Number(rows.at(-1)[0]));
  const [left, right, bottom] = [26, chart.width - 14, chart.height - 34];
  const {x, y} = chart.frame([0, most], [0, top], [left, 14, right, bottom]);
  const path = (place) => rows.map((row, i) => [x(i), y(Number(row[place]))]);
  const [added, together] = [path(0), path(1)];
  const isApart = rows.length > 2;
  return [
    ...Array.from({length: Math.floor(top) + 1}, (_, i) => i).flatMap((value) => [rule([left, y(value)], [right, y(value)]), text([left - 8, y(value) + 4], value, "", "end")]),
    ...Array.from({length: most + 1}, (_, i) => text([x(i), bottom + 17], i, "", "middle")),
    text([left - 8, 10], "ε", "", "end"), text([right, chart.height - 2], "releases", "", "end"),
    line([[left, y(budget)], [right, y(budget)]], "s-budget"), text([right, y(budget) - 7], "budget", "budget halo", "end"),
    line(added, "s-twin dashed"), line(together, "s-private"),
    disc(added.at(-1), 4.5, "f-twin"), disc(together.at(-1), 4.5, "f-private"),
    ...(isApart ? [text([added.at(-1)[0] - 8, added.at(-1)[1] - 8], "added up", "twin halo", "end"), text([together.at(-1)[0], together.at(-1)[1] + 20], "together", "private halo", "end")] : []),
  ];
}
