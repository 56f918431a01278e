/** Scene 4: the visitor guesses for single models whether record 24 was in the training, with weak and strong noise. */

import {Chart, circles, disc, line, rule, text} from "../../../static/js/lib/svg.js";
import {Generator} from "../../../static/js/widgets/common/random.js";
import {animate, nine, part} from "./scene.js";

const FALL_MS = 600;
const SHOWN_MS = 1100; // an answer, before the next model
const LANES = {in: 0.2, model: 0.5, out: 0.8}; // of the height
const JITTER = 0.07; // of the height

/** Pure: a value of a density given at places, by a uniform number. */
export function drawn(places, density, uniform) {
  const sums = [0];
  for (const value of density) sums.push(sums.at(-1) + value);
  const wanted = uniform * sums.at(-1);
  const i = Math.min(density.length - 1, sums.findIndex((sum) => sum > wanted) - 1);
  const step = places[1] - places[0];
  return places[i] + step * ((wanted - sums[i]) / density[i] - 0.5);
}

/** Pure: all rounds; each game has as many models with the record as without it, in random order. */
export function rounds({places, without, levels, attack}, generator) {
  return attack.games.flatMap(({level, guesses}, game) => {
    const answers = Array.from({length: guesses}, (_, i) => i % 2 === 0);
    for (let i = answers.length - 1; i > 0; i--) {
      const j = Math.floor(generator.uniform() * (i + 1));
      [answers[i], answers[j]] = [answers[j], answers[i]];
    }
    return answers.map((wasIn) => ({game, level, wasIn, at: drawn(places, wasIn ? levels[level].with : without, generator.uniform())}));
  });
}

/** @param {Element} scene @param {any} data @param {import("./scene.js").Course} course */
export function mountAttack(scene, data, course) {
  const generator = new Generator(Date.now());
  const all = rounds(data, generator);
  const cloud = (density) => Array.from({length: data.attack.spread}, () => [drawn(data.places, density, generator.uniform()), (2 * generator.uniform() - 1) * JITTER]);
  const clouds = data.attack.games.map(({level}) => ({in: cloud(data.levels[level].with), out: cloud(data.without)}));
  const guesses = [];
  const buttons = ["in", "out"].map((name) => part(scene, name));
  const view = {fall: 0, isAnswered: false, hasBegun: false};
  const chart = new Chart(part(scene, "plot"), {height: 250, label: "Models trained with record 24 above, without it below, and a model to guess between them", draw: () => draw()});
  const isOver = () => guesses.length === all.length;
  const current = () => all[guesses.length - Number(view.isAnswered || isOver())];
  const right = (game) => guesses.filter((guess, i) => all[i].game === game && guess === all[i].wasIn).length;
  const made = (game) => guesses.filter((_, i) => all[i].game === game).length;

  function draw() {
    if (chart.width) chart.show(marks(chart, data, clouds[current().game], current(), view));
    const score = data.attack.games.map(({level, guesses: count}, game) => `σ = ${data.levels[level].noise}: ${right(game)} of ${made(game)} right${made(game) < count ? `, ${count - made(game)} to go` : ""}`);
    part(scene, "tally").textContent = `${score.join(" · ")}.`;
    part(scene, "live").textContent = words();
    for (const button of buttons) button.disabled = view.isAnswered || isOver() || view.fall < 1;
  }
  function words() {
    const {level, wasIn, game} = current();
    if (isOver() && !view.isAnswered) return `In the long run, nobody is right about this run, with σ = ${data.levels[level].noise}, more than ${data.levels[level].limit} times in 100; more than that, in ${data.attack.games[game].guesses} guesses, is luck.`;
    if (view.isAnswered) return `${guesses.at(-1) === wasIn ? "Right" : "Wrong"}: record 24 was ${wasIn ? "in" : "not in"}.`;
    return game === 0 ? "Little noise keeps the two kinds of models apart: this is easy." : "The same training with strong noise: the two kinds overlap. And now?";
  }
  function next() {
    view.isAnswered = false;
    view.fall = 0;
    if (isOver()) draw();
    else {
      animate(FALL_MS, (share) => {
        view.fall = share;
        draw();
      });
    }
  }
  function guess(answer) {
    guesses.push(answer);
    view.isAnswered = true;
    draw();
    course.speak(words());
    data.attack.games.forEach(({guesses: count}, game) => made(game) === count && course.reach(`game-${game}`));
    setTimeout(next, SHOWN_MS);
  }
  buttons.forEach((button, i) => button.addEventListener("click", () => guess(i === 0)));
  draw();
  return {
    enter() {
      if (!view.hasBegun) next();
      view.hasBegun = true;
    },
    score: () => data.attack.games.map(({level}, game) => ({noise: data.levels[level].noise, right: right(game), made: made(game)})),
  };
}

function marks(chart, {places}, cloud, {at, wasIn}, {fall, isAnswered}) {
  const {x} = chart.frame([places[0], places.at(-1)], [0, 1], [8, 0, chart.width - 8, chart.height]);
  const height = (lane, jitter = 0) => (LANES[lane] + jitter) * chart.height + 6;
  const middle = height("model");
  const target = isAnswered ? height(wasIn ? "in" : "out") : middle;
  const model = [x(at), isAnswered ? target : middle * fall];
  return [
    rule([0, middle], [chart.width, middle]),
    circles(cloud.in.map(([z, j]) => [x(z), height("in", j)]), 5, "f-private soft"),
    circles(cloud.out.map(([z, j]) => [x(z), height("out", j)]), 4.5, "f-surface line thin s-private"),
    nine([18, 34], 30), text([38, 22], "with 24", "private halo"),
    text([8, chart.height - 6], "without 24", "private halo"),
    ...(fall === 1 || isAnswered ? [line([[model[0], 26], [model[0], chart.height - 26]], "thin s-ink dotted")] : []),
    disc(model, 15, "f-surface line s-ink"),
    ...(isAnswered ? [disc(model, 6, wasIn ? "f-ink" : "line s-ink")] : [text([model[0], model[1] + 6], "?", "strong", "middle")]),
  ];
}
