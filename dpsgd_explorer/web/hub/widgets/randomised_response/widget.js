/** Randomised response for the visitor: a private answer, two coins, a sheet, and crowds of sheets. */

import {integer, percent} from "../../../../../static/js/lib/format.js";
import {Generator} from "../../../../../static/js/widgets/common/random.js";
import {Chart} from "../../../../../static/js/lib/svg.js";
import {oncePerFrame, part, speaker, write} from "../../../../../static/js/widgets/common/widget_parts.js";
import {coins, crowds, onlooker} from "./drawings.js";
import {OUTCOMES, ask, conclusion, estimate, limits, sheet, story, toss} from "./survey.js";

const UNTOSSED = "Toss the coins, and see what the sheet says";
const OF_CROWDS = ["One sheet proves nothing, many sheets show the share", "Every crowd tosses the same two coins"];
const UNANSWERED = "First answer for yourself: yes or no.";

export function mount(element, data) {
  const speak = speaker(element);
  const first = part(element, "sub").textContent;
  const outcome = part(element, "outcome");
  const own = {seed: data.seed, generator: new Generator(data.seed), tosses: 0, last: null, truth: null};
  const crowd = {generator: new Generator(data.seed + 1), survey: data.surveys[0], shares: []};
  const redraw = oncePerFrame(() => draw());
  const charts = {
    coins: new Chart(part(element, "coins"), {height: 172, label: "Two coins, and the sheet that they lead to", draw: redraw}),
    onlooker: new Chart(part(element, "onlooker"), {height: 88, label: "Bars: how likely the sheet’s word is under either truth", draw: redraw}),
    crowd: new Chart(part(element, "crowd"), {height: 172, label: "Shares of yes on the sheets of many crowds, and their estimates around the truth", draw: redraw}),
  };

  function draw() {
    const {last} = own;
    if (charts.coins.width) charts.coins.show(coins(charts.coins, last));
    if (charts.onlooker.width) charts.onlooker.show(onlooker(charts.onlooker, data.truth_probability, last?.says ?? true));
    write(element, "seen", `Probability that a sheet says “${last?.says === false ? "no" : "yes"}”`);
    write(element, "seed", `Seed ${own.seed}, toss ${own.tosses}. In a survey you toss once: a second sheet would cost as much again.`);
    write(element, "fact", limits(data));
    drawCrowd();
  }

  function drawCrowd() {
    const {survey, shares} = crowd;
    const estimates = shares.map((share) => estimate(share, data.truth_probability));
    if (charts.crowd.width) charts.crowd.show(crowds(charts.crowd, data, survey, shares, estimates));
    const words = `${integer(survey.people)} sheets: ${percent(shares.at(-1))} say yes, so the estimate is ${percent(estimates.at(-1))}, ± ${survey.error_words} points`;
    write(element, "found", words);
    return words;
  }

  part(element, "toss").addEventListener("click", () => {
    if (own.truth === null) {
      write(element, "title", UNANSWERED);
      part(element, "spoken").textContent = UNANSWERED;
      return;
    }
    own.tosses += 1;
    outcome.value = "0"; // a link states no coins of the visitor
    show(toss(own.generator, own.truth));
  });
  outcome.addEventListener("change", () => {
    const last = sheet(OUTCOMES[outcome.value], own.truth);
    if (last) show(last);
    else forget({});
  });
  function show(last) {
    own.last = last;
    write(element, "title", conclusion(last, data));
    write(element, "sub", story(last, own.truth));
    speak(`${story(last, own.truth)} ${conclusion(last, data)}.`);
    redraw();
  }
  part(element, "fresh").addEventListener("click", () => {
    [own.seed] = crypto.getRandomValues(new Uint16Array(1));
    forget({generator: new Generator(own.seed), tosses: 0});
  });
  for (const radio of element.querySelectorAll("[data-own]")) {
    radio.addEventListener("change", () => forget({truth: radio.value === "yes"}));
  }
  /** Clear the sheet after a change of the answer or of the coins. */
  function forget(changes) {
    Object.assign(own, changes, {last: null});
    outcome.value = "0";
    write(element, "title", UNTOSSED);
    write(element, "sub", first);
    redraw();
  }
  const another = (count) => {
    for (let i = 0; i < count; i++) crowd.shares.push(ask(crowd.generator, crowd.survey.people, data.true_share));
    crowd.shares = crowd.shares.slice(-data.crowds);
  };
  for (const radio of element.querySelectorAll("[data-people]")) {
    radio.addEventListener("change", () => {
      crowd.survey = data.surveys[Number(radio.value)];
      another(data.crowds);
      ["title", "sub"].forEach((name, i) => write(element, name, OF_CROWDS[i]));
      speak(drawCrowd());
    });
  }
  part(element, "again").addEventListener("click", () => {
    another(1);
    speak(drawCrowd());
  });
  another(data.crowds);
}
