/** Diary of releases under one budget, with three modes. */

import {tableRow} from "../../../../../static/js/lib/page.js";
import {Chart, area, box, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {conclusion, enter, history, promise, refusal} from "./diary.js";

const GLASSES = [["added up", "twin"], ["together", "private"]]; // as the first entries of a row

export function mount(element, data) {
  const speak = speaker(element);
  const ways = [...element.querySelectorAll("[data-way]")];
  const way = () => Number(ways.find((radio) => radio.checked).value);
  const label = Object.fromEntries(data.kinds.map((entry) => [entry.kind, entry.label]));
  let diary = {entries: [], refused: null};
  let release = "";
  const redraw = oncePerFrame(() => draw());
  const chart = new Chart(part(element, "chart"), {
    height: 240, label: "Two glasses of releases, added up and together, and the budget as their rim", draw: redraw,
  });

  function draw() {
    const rows = history(diary.entries, data);
    const words = [conclusion(diary.entries, data, rows.at(-1))];
    words.push(diary.refused ? refusal(label[release], way(), diary.refused, data) : promise(diary.entries, way(), data, rows.at(-1)));
    write(element, "title", words[0], diary.entries.length ? [[rows.at(-1)[1], "private"], [rows.at(-1)[0], "twin"], [`${data.budget}`, "budget"]] : [[`ε = ${data.budget}`, "budget"]]);
    write(element, "fact", words[1]);
    speak(words.join(". "));
    part(element, "rows").replaceChildren(...diary.entries.map((kind, i) => {
      const [added, together, filtered] = rows[i + 1];
      return tableRow([label[kind]], [added, together, `${filtered} %`]);
    }));
    if (chart.width) chart.show(glasses(chart, rows, data));
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

/** Two glasses whose rim is the budget: added up, a release is a block of its own ε; together, its block sinks into the others. */
function glasses(chart, rows, {budget}) {
  const top = Math.max(1.25 * budget, 1.1 * Number(rows.at(-1)[0]));
  const [left, bottom] = [26, chart.height - 26];
  const {y} = chart.frame([0, 1], [0, top], [left, 10, chart.width - 4, bottom]);
  const half = (chart.width - left) / 2;
  const wide = Math.min(0.62 * half, 190);
  return [
    ...Array.from({length: Math.floor(top) + 1}, (_, i) => i).flatMap((value) => [rule([left, y(value)], [chart.width - 4, y(value)]), text([left - 8, y(value) + 4], value, "", "end")]),
    text([left - 8, 10], "ε", "", "end"),
    ...GLASSES.flatMap(([words, colour], glass) => {
      const start = left + half * (glass + 0.5) - wide / 2;
      const levels = rows.map((row) => Number(row[glass]));
      return [
        ...levels.slice(1).flatMap((level, i) => [box([start + 3, y(level) + 1], wide - 6, Math.max(0, y(levels[i]) - y(level) - 1.5), `f-${colour}${i % 2 ? " soft" : ""}`)]),
        line([[start, y(budget) - 10], [start, bottom], [start + wide, bottom], [start + wide, y(budget) - 10]], "s-ink"),
        ...(levels.at(-1) > budget ? [area([[start, y(levels.at(-1))], [start + wide, y(levels.at(-1))], [start + wide, y(budget)], [start, y(budget)]], "f-wash-budget soft")] : []),
        text([start + wide / 2, bottom + 20], `${words}: ${rows.at(-1)[glass]}`, `${colour} halo`, "middle"),
      ];
    }),
    line([[left, y(budget)], [chart.width - 4, y(budget)]], "s-budget"), text([chart.width - 4, y(budget) - 7], "budget", "budget halo", "end"),
  ];
}
