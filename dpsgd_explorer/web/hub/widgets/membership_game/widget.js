/** Membership game: the visitor and an attacker guess for ten records whether each was in the training set. */

import {Chart, circles, line, rule, showTable, text} from "../../../../../static/js/lib/svg.js";
import {greyPicture} from "../../../../../static/js/widgets/common/grey.js";
import {Generator} from "../../../../../static/js/widgets/common/random.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {answer, begin, inView, isOver, limits, next, rounds, score, standing, table, verdict, words} from "./game.js";

export function mount(element, data) {
  const speak = speaker(element);
  const generator = new Generator(data.seed);
  const fresh = () => begin(generator, data.joined, data.rounds);
  const state = {place: 0, games: data.models.map(fresh)};
  const strips = new Chart(part(element, "strips"), {
    height: 122, label: "How sure the attacker’s own models are of the label, trained with the record and without it, and how sure this model is", draw: () => draw(),
  });

  function draw() {
    const game = state.games[state.place];
    const model = data.models[state.place];
    const played = rounds(game, data.joined, model);
    const record = inView(game);
    part(element, "picture").replaceChildren(greyPicture(data.pictures[record], `A handwritten ${data.labels[record]}`));
    write(element, "question", words(game, data, model));
    write(element, "title", standing(played, data.rounds), [[`you ${score(played).you}`, "ink"], [`the attacker ${score(played).attacker}`, "attack"]]);
    write(element, "limit", limits(played, data, model));
    write(element, "verdict", verdict(played, data, model));
    for (const name of ["in", "out"]) part(element, name).disabled = isOver(game);
    showTable(part(element, "rounds"), table(played, data, model));
    if (strips.width) strips.show(dots(strips, model, record));
    speak([verdict(played, data, model), standing(played, data.rounds), isOver(game) ? "" : words(game, data, model)].join(" "));
  }

  /** Show the next state of the game, and focus the next button. */
  function goOn(game, focused) {
    state.games[state.place] = game;
    draw();
    if (isOver(game)) part(element, "again").focus();
    else part(element, focused).focus();
  }
  const shown = () => state.games[state.place];
  part(element, "in").addEventListener("click", () => goOn(next(answer(shown(), true)), "in"));
  part(element, "out").addEventListener("click", () => goOn(next(answer(shown(), false)), "out"));
  part(element, "again").addEventListener("click", () => goOn(fresh(), "in"));
  for (const radio of element.querySelectorAll("[data-model]")) {
    radio.addEventListener("change", () => {
      state.place = Number(radio.value) - 1;
      draw();
    });
  }
  draw();
}

/** Two strips of the attacker's own models on a logistic axis, and the attacked model as a line through both. */
function dots(chart, {logits, with_it: inside, without_it: outside}, record) {
  const rows = [["trained with it", inside[record], "f-ink"], ["without it", outside[record], "ring s-ink"]];
  const all = [...inside[record], ...outside[record], logits[record]];
  const room = 0.08 * (Math.max(...all) - Math.min(...all)) || 1;
  const {x} = chart.frame([Math.min(...all) - room, Math.max(...all) + room], [0, 1], [6, 0, chart.width - 6, 1]);
  const at = x(logits[record]);
  return [
    ...rows.flatMap(([words, values, css], i) => {
      const y = 44 + 36 * i;
      return [text([6, y - 12], words, "halo"), rule([6, y], [chart.width - 6, y]), circles(values.map((value) => [x(value), y]), 5.5, css)];
    }),
    line([[at, 18], [at, 94]], "s-attack"),
    text([at + (at > chart.width / 2 ? -6 : 6), 13], "this model", "attack halo", at > chart.width / 2 ? "end" : "start"),
    text([6, 116], "← less sure of its label"), text([chart.width - 6, 116], "surer →", "", "end"),
  ];
}
