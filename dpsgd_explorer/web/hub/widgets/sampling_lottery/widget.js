/** Sampling lottery: four schemes with the same expected batch size, and what is proven about ε of each. */

import {mark24} from "../../../../../static/js/widgets/common/odd_record.js";
import {Generator} from "../../../../../static/js/widgets/common/random.js";
import {Chart, box, circles, line, rule, text} from "../../../../../static/js/lib/svg.js";
import {playOnce} from "../../../../../static/js/widgets/common/play_once.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {EPOCH, story} from "./draws.js";

const SCHEMES = Object.keys(EPOCH);
const FALL_MS = 600; // duration of a fall; 0 with reduced motion
const EPSILON_PX = 124; // least width of the ε of a scheme
const EPSILON_SHARE = 0.3; // of the width, for the ε of a scheme
const LAST = SCHEMES.at(-1); // its row numbers the epochs

export function mount(element, data) {
  const speak = speaker(element);
  const play = part(element, "play");
  const state = {seed: data.seed, epochs: 1, rows: [], fallen: 1};
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const redraw = oncePerFrame(() => draw());
  const charts = SCHEMES.map((name) => new Chart(part(element, name), {
    height: name === LAST ? 72 : 54, label: "A ball for each record of each batch, yours in another colour; at the right, ε", draw: redraw,
  }));

  /** Draw all epochs in advance; they are shown one by one. */
  const deal = () => {
    const generator = new Generator(state.seed);
    state.rows = SCHEMES.map((name) => Array.from({length: data.epochs}, () => EPOCH[name](generator, data.records, data.batch_size)).flat());
  };

  function draw() {
    if (charts.some((chart) => !chart.width)) return;
    const shown = state.epochs * (data.records / data.batch_size);
    const after = data.after[state.epochs - 1];
    SCHEMES.forEach((name, i) => {
      const steps = state.rows[i].slice(0, shown);
      charts[i].show([...strip(charts[i], steps, data, state.fallen), ...(name === LAST ? numbers(charts[i], data) : []), ...epsilons(charts[i], after.schemes[name], data.largest)]);
      write(element, `${name}-used`, story(steps));
      write(element, `${name}-promise`, after.schemes[name].words);
    });
    write(element, "title", after.title);
    play.textContent = state.epochs === data.epochs ? "Start again" : "Play an epoch";
    speak(`${after.title}. ${SCHEMES.map((name) => after.schemes[name].words).join(" ")}`);
  }

  play.addEventListener("click", () => {
    state.epochs = (state.epochs % data.epochs) + 1;
    fall();
  });
  /** Let the balls of the last epoch fall. */
  function fall() {
    const start = performance.now();
    const frame = (time) => {
      state.fallen = still.matches ? 1 : Math.min(1, Math.max(0, time - start) / FALL_MS);
      draw();
      if (state.fallen < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }
  part(element, "again").addEventListener("click", () => {
    state.seed += 1;
    deal();
    redraw();
  });
  deal();
  playOnce(element, [fall], FALL_MS);
}

/** The batches of one scheme as stacked balls, with thin lines between epochs; `fallen` is the progress of the last epoch's fall. */
function strip(chart, steps, data, fallen) {
  const perEpoch = data.records / data.batch_size;
  const all = data.epochs * perEpoch;
  const [left, right, top, bottom] = [24, chart.width - epsilonWidth(chart) - 16, 2, 46];
  const {x, y} = chart.frame([0, all], [0, data.tallest], [left, top, right, bottom]);
  const step = y(0) - y(1);
  const radius = Math.max(1.5, Math.min(step / 2, 0.4 * (x(1) - x(0))));
  const newest = steps.length - perEpoch;
  const drop = (i) => (i < newest ? 0 : (1 - fallen ** 2) * (bottom - top));
  const balls = steps.flatMap(({size, isYours}, i) => Array.from({length: Math.min(size, data.tallest)}, (_, k) => ({
    at: [x(i + 0.5), y(k + 0.5) - drop(i)], isYours: isYours && k === 0,
  })));
  const places = (isYours) => balls.filter((ball) => ball.isYours === isYours).map(({at}) => at);
  return [
    ...Array.from({length: data.epochs + 1}, (_, i) => rule([x(i * perEpoch), top], [x(i * perEpoch), bottom])),
    line([[left, y(data.batch_size)], [right, y(data.batch_size)]], "thin s-ink dotted"),
    circles(places(false), radius, "f-private soft"),
    ...places(true).flatMap(mark24),
    text([left - 6, y(data.batch_size) + 4], data.batch_size, "", "end"),
    rule([left, bottom], [right, bottom], "axis"),
  ];
}

/** Number of each epoch, below the last row. */
function numbers({x}, {records, batch_size, epochs}) {
  return Array.from({length: epochs}, (_, i) => text([x(((i + 0.5) * records) / batch_size), 64], i + 1, "", "middle"));
}

const epsilonWidth = ({width}) => Math.max(EPSILON_PX, EPSILON_SHARE * width);

/** ε of one scheme as a bar, pale between a lower and an upper bound; all schemes and epochs share the scale. */
function epsilons(chart, {least, most, status, short}, largest) {
  const left = chart.width - epsilonWidth(chart);
  const end = (epsilon) => (Number(epsilon) / largest) * (epsilonWidth(chart) - 4);
  const [css, isExact] = [status === "exact" ? "good" : "private", status === "exact"];
  return [
    text([left, 16], short, `${css} halo strong`),
    box([left, 24], end(isExact ? most : least), 12, `f-${css}`),
    ...(isExact ? [] : [box([left + end(least), 24], end(most) - end(least), 12, `f-${css} soft`)]),
    text([left, 52], isExact ? "exact" : "two bounds"),
  ];
}
