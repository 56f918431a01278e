/** Scene 3: one private step, as arrows: each gradient is clipped, all are added, and noise is added to the sum. */

import {Chart, arrow, circles, disc, text} from "../../../static/js/lib/svg.js";
import {compute, plus, scaled} from "../../../static/js/widgets/common/dpsgd_step.js";
import {animate, between, nine, part, progress} from "./scene.js";

const END = 5;
const PADDING = 24; // px
const PLAY_MS = 9000; // the whole step
const NOISE_MS = 2600;
const STRIDE = 41; // between two draws that are shown, without a common divisor with their number
const WORDS = [
  "Each record pulls the model in its own direction: its gradient. Record 24 pulls hardest.",
  "Every arrow longer than C is cut to length C: from now on, nobody pulls harder than C.",
  "The arrows are added, tip to tail.",
  "Noise moves the sum to one of the dots, drawn at random. It could have been any other.",
  "The model moves along the noisy sum. From this arrow, nobody can be sure whether 24 was in it.",
];

/** @param {Element} scene @param {any} data @param {import("./scene.js").Course} course */
export function mountStep(scene, {odd: {records, odd}, step: settings}, course) {
  const now = compute({records, ...settings, noiseMultiplier: settings.noise_multiplier, noise: settings.noise[0]});
  const time = part(scene, "time");
  const phases = [...part(scene, "phases").children];
  let draw_number = 0;
  let stop = () => {};
  const chart = new Chart(part(scene, "plot"), {height: 320, label: "One private step as arrows", draw: () => draw()});

  function draw() {
    const at = Number(time.value);
    if (chart.width) chart.show(marks(chart, {now, settings, odd, noise: settings.noise[draw_number]}, at));
    const phase = Math.min(Math.floor(at), END - 1);
    part(scene, "live").textContent = WORDS[phase];
    time.setAttribute("aria-valuetext", phases[phase].textContent);
    phases.forEach((entry, i) => entry.classList.toggle("on", i === phase));
    part(scene, "play").textContent = at >= END ? "Play again" : "Play";
    if (at >= END - 0.1) course.reach("end");
  }
  const go = (from, to, duration_ms) => {
    stop();
    stop = animate(duration_ms, (share) => {
      time.value = String(between(from, to, share));
      draw();
    });
  };
  time.addEventListener("input", () => {
    stop();
    draw();
    course.speak(part(scene, "live").textContent);
  });
  part(scene, "play").addEventListener("click", () => {
    const from = Number(time.value) >= END ? 0 : Number(time.value);
    go(from, END, PLAY_MS * (1 - from / END));
  });
  part(scene, "redraw").addEventListener("click", () => {
    draw_number = (draw_number + STRIDE) % settings.noise.length;
    go(END - 2, END, NOISE_MS);
  });
  draw();
  return {enter: () => Number(time.value) === 0 && go(0, 0.95, 900), leave: () => stop()};
}

/** Middle and scale at which all points are in view. */
function view(points, {width, height}) {
  const ends = [0, 1].map((i) => [Math.min(0, ...points.map((point) => point[i])), Math.max(0, ...points.map((point) => point[i]))]);
  const zoom = Math.min(...ends.map(([low, high], i) => ([width, height][i] - 2 * PADDING) / (high - low)));
  const [x, y] = ends.map(([low, high]) => (low + high) / 2);
  return {x, y, zoom};
}

function marks(chart, {now, settings, odd, noise}, at) {
  const [grow, cut, add, rain, move] = [0, 1, 2, 3, 4].map((start) => progress(at, start, start + 0.9));
  const tails = settings.drawn.map((_, i) => now.clipped.slice(0, i).reduce(plus, [0, 0]));
  const released = (draw) => plus(now.sums.clipped, scaled(draw, now.spread));
  const views = [
    now.pulls,
    [[0, 0], ...settings.noise.map(released)],
  ].map((points) => view(points, chart));
  const [zoom, ...middle] = ["zoom", "x", "y"].map((name) => between(views[0][name], views[1][name], add));
  const place = ([a, b]) => [chart.width / 2 + (a - middle[0]) * zoom, chart.height / 2 - (b - middle[1]) * zoom];
  const origin = place([0, 0]);
  const dots = settings.noise.slice(0, Math.round(rain * settings.noise.length));
  const arrows = settings.drawn.flatMap((record, i) => {
    const pull = now.pulls[i].map((value, k) => between(value, now.clipped[i][k], cut));
    const tail = scaled(tails[i], add);
    const isOdd = record === odd;
    const [from, to] = [place(tail), place(plus(tail, scaled(pull, Math.max(0.02, grow))))];
    return [
      ...arrow(from, to, `${isOdd ? "s-attack" : "thin s-private"}${rain > 0 ? " faint" : ""}`, `${isOdd ? "f-attack" : "f-private"}${rain > 0 ? " faint" : ""}`, isOdd ? 11 : 8),
      ...(isOdd && add < 0.5 && grow === 1 ? [nine([to[0] + 20, to[1] + 18], 38)] : []),
    ];
  });
  return [
    ...(cut > 0 && add < 1 ? [disc(origin, settings.bound * zoom, "line thin s-ink dashed"), text([origin[0] + 6, origin[1] - settings.bound * zoom - 6], "C", "it halo")] : []),
    circles(dots.map((draw) => place(released(draw))), 2.5, "f-private faint"),
    ...arrows,
    ...(add === 1 ? [disc(place(now.sums.clipped), 4.5, "f-ink")] : []),
    ...(add === 1 && rain === 0 ? [text([place(now.sums.clipped)[0] + 10, place(now.sums.clipped)[1] + 5], "sum", "strong halo")] : []),
    ...(move > 0 ? [...arrow(origin, place(scaled(released(noise), move)), "s-private", "f-private", 14), disc(place(released(noise)), 6, "f-private")] : []),
    disc(origin, 4, "f-ink"),
  ];
}
