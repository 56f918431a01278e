/** Membership game: the visitor and an attacker guess for ten records whether each was in the training set. */

import {Chart, box, line, rule, showTable, text} from "../../../../../static/js/lib/svg.js";
import {Generator} from "../../../../../static/js/widgets/common/random.js";
import {part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {answer, begin, inView, isOver, limits, next, rounds, score, standing, table, words} from "./game.js";

const SIDE = 28;
const WHITE = 15; // largest hexadecimal digit; each pixel is one digit

export function mount(element, data) {
  const speak = speaker(element);
  const generator = new Generator(data.seed);
  const fresh = () => begin(generator, data.joined, data.rounds);
  const state = {place: 0, games: data.models.map(fresh)};
  const bars = new Chart(part(element, "bars"), {height: 132, label: "Right guesses so far: yours, the attacker’s, a coin’s, and the limit of this run", draw: () => draw()});

  function draw() {
    const game = state.games[state.place];
    const model = data.models[state.place];
    const played = rounds(game, data.joined, model);
    const record = inView(game);
    showPicture(part(element, "picture"), data.pictures[record], `A handwritten ${data.labels[record]}`);
    write(element, "question", words(game, data, model));
    write(element, "score", standing(played, data.rounds));
    write(element, "limit", limits(played, data, model));
    for (const name of ["in", "out"]) part(element, name).hidden = game.revealed;
    part(element, "next").hidden = !game.revealed || isOver(game);
    showTable(part(element, "rounds"), table(played, data, model));
    if (bars.width) bars.show(drawn(bars, data, model, played));
    speak(`${words(game, data, model)} ${standing(played, data.rounds)}.`);
  }

  /** Show the next state of the game, and focus the next button. */
  function goOn(game, focused) {
    state.games[state.place] = game;
    draw();
    part(element, isOver(game) ? "again" : focused).focus();
  }
  const shown = () => state.games[state.place];
  part(element, "in").addEventListener("click", () => goOn(answer(shown(), true), "next"));
  part(element, "out").addEventListener("click", () => goOn(answer(shown(), false), "next"));
  part(element, "next").addEventListener("click", () => goOn(next(shown()), "in"));
  part(element, "again").addEventListener("click", () => goOn(fresh(), "in"));
  for (const radio of element.querySelectorAll("[data-model]")) {
    radio.addEventListener("change", () => {
      state.place = Number(radio.value) - 1;
      draw();
    });
  }
  draw();
}

function showPicture(place, shades, label) {
  const canvas = Object.assign(document.createElement("canvas"), {width: SIDE, height: SIDE});
  canvas.setAttribute("role", "img");
  const image = new ImageData(SIDE, SIDE);
  for (let i = 0; i < shades.length; i++) {
    const grey = (255 * parseInt(shades[i], 16)) / WHITE;
    image.data.set([grey, grey, grey, 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.setAttribute("aria-label", label);
  place.replaceChildren(canvas);
}

/** Two bars by rounds, with the expected score of a coin and the limit of any attack. */
function drawn(chart, {rounds: count}, {epsilon, most}, played) {
  const [left, right, bottom] = [84, chart.width - 34, chart.height - 38];
  const {x} = chart.frame([0, count], [0, 1], [left, 10, right, bottom]);
  const right_guesses = score(played);
  const marks = [0, count / 2, count].flatMap((value) => [rule([x(value), 10], [x(value), bottom]), text([x(value), bottom + 18], value, "", "middle")]);
  marks.push(text([right, bottom + 35], "right guesses", "", "end"));
  for (const [i, [who, words, css]] of [["you", "you", "f-ink"], ["attacker", "attacker", "f-attack"]].entries()) {
    const top = 16 + 36 * i;
    marks.push(text([left - 10, top + 16], words, "", "end"), box([x(0), top], x(right_guesses[who]) - x(0), 22, css), text([x(right_guesses[who]) + 8, top + 16], right_guesses[who], "halo"));
  }
  if (played.length) {
    const half = x(played.length / 2);
    marks.push(line([[half, 10], [half, bottom]], "thin s-ink dotted"), text([half - 6, bottom - 2], "a coin", "halo", "end"));
  }
  if (epsilon && played.length) {
    const edge = x(most * played.length);
    marks.push(line([[edge, 10], [edge, bottom]], "s-budget"), text([edge + 6, bottom - 2], "this run", "budget halo"));
  }
  return marks;
}
