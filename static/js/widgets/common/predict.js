/**
 * Two predictions before a picture: the picture is hidden until both are made, then each answer slides in beside its
 * guess. Predictions with a position in the drawing are marked there. Widgets in the picture receive a "guessed" event.
 * The number of close guesses stays in this browser.
 */

import {countsOf, record} from "./score.js";
import {decimals, unbroken} from "../../lib/format.js";
import {diamond, make, scale, text} from "../../lib/svg.js";

const LABEL_GAP = 18; // px between two labels of predictions
const REVEAL_MS = 900; // duration of an answer's way to its place; 0 with reduced motion

/** Pure: scale from a drawing's attribute, "low high start end" with optional "log"; null if missing. */
export function readScale(words) {
  const [low, high, start, end] = (words ?? "").split(" ").map(Number);
  if (![low, high, start, end].every(Number.isFinite)) return null;
  return scale([low, high], [start, end], {log: words.endsWith(" log")});
}

/**
 * Pure: pixel of a prediction; `at` is {x} or {y}, and the value is the other coordinate; null outside of the
 * drawing.
 */
export function pixelOf({value, at}, x, y) {
  if (!at || !x || !y || value === null) return null;
  const point = "x" in at ? [x(at.x), y(value)] : [x(value), y(at.y)];
  return point.every(Number.isFinite) ? point : null;
}

/** Pure: first number of an answer in words; null without one. */
export function numberIn(answer) {
  const [match = null] = answer.match(/\d[\d,]*(\.\d+)?/) ?? [];
  return match === null ? null : Number(match.replaceAll(",", ""));
}

/** Pure: distance of a guess from the truth in words, with as many decimals as the truth or the guess has. */
export function distance(guess, truth, unit = "") {
  const digits = Math.max(...[guess, truth].map((value) => String(value).split(".")[1]?.length ?? 0));
  const off = decimals(Math.abs(guess - truth), digits);
  if (Number(off) === 0) return "Exactly right.";
  const isWord = /^\s*[a-z]/i.test(unit); // "4.9 times too high" would be another number
  const measure = unit.trim() === "%" ? plural(off, " point") : `${off}${isWord ? "" : unit}`;
  return `${measure} too ${guess > truth ? "high" : "low"}.`;
}

const plural = (count, noun) => `${count}${noun}${count === "1" ? "" : "s"}`;

/** Pure: text under a prediction once the picture is visible. */
export function outcome(said, answer) {
  return said === null ? `It is ${answer}.` : `You said ${said}; it is ${answer}.`;
}

/** Pure: decoded fragment of an address; "" if missing or invalid. */
export function fragment(hash) {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return "";
  }
}

/** Prediction of a field: as text, and as a value of the drawing; null without a choice. */
function answerOf(field) {
  const slider = field.querySelector('[type="range"]');
  if (!slider) {
    const chosen = field.querySelector(":checked");
    return {words: chosen?.value ?? null, value: null, at: null};
  }
  const at = field.dataset.at ? JSON.parse(field.dataset.at) : null;
  return {words: slider.value + field.dataset.unit, value: Number(slider.value) * Number(field.dataset.factor), at};
}

/** Mark predictions on both drawings of a picture; widgets have axes of their own and mark them themselves. */
function markOn(picture, guesses) {
  for (const svg of picture.querySelectorAll("svg[data-x]")) {
    if (svg.closest("[data-widget]")) continue;
    const scales = [readScale(svg.dataset.x), readScale(svg.dataset.y)];
    const placed = guesses.map((guess) => ({words: guess.words, point: pixelOf(guess, ...scales)})).filter(({point}) => point);
    const [heights, shifts] = [placed.map(({point}) => point[1]), [4, 4]];
    if (placed.length > 1 && Math.abs(heights[0] - heights[1]) < LABEL_GAP) shifts.splice(0, 2, -12, 22); // one above, one below
    for (const [i, {words, point: [x, y]}] of placed.entries()) {
      const isRight = x > 0.7 * svg.viewBox.baseVal.width;
      svg.append(
        make(diamond([x, y], 7, "guess-mark")),
        make(text([x + (isRight ? -13 : 13), y + shifts[i]], `you: ${words}`, "ink halo", isRight ? "end" : "start")),
      );
    }
  }
}

/** Slide the truth from the end of the scale to its place below the guess, and mark the stretch between both. */
function slideIn(field) {
  const slider = field.querySelector('[type="range"]');
  const truth = slider && numberIn(field.dataset.answer);
  if (!slider || truth === null) return;
  const [low, high, guess] = [slider.min, slider.max, slider.value].map(Number);
  const share = (value) => Math.min(1, Math.max(0, (value - low) / (high - low)));
  const [row, stretch, mark] = ["truth-row", "truth-stretch", "truth-mark"].map((name) => Object.assign(document.createElement("span"), {className: name}));
  row.setAttribute("aria-hidden", "true");
  row.append(stretch, mark);
  field.querySelector(".range").append(row);
  const digits = String(truth).split(".")[1]?.length ?? 0;
  const put = (at, words) => {
    const [from, to] = [share(guess), share(at)].sort((a, b) => a - b);
    for (const [element, name, value] of [[mark, "--at", share(at)], [stretch, "--from", from], [stretch, "--to", to]]) element.style.setProperty(name, value.toFixed(4));
    mark.textContent = words;
  };
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const start = performance.now();
  const frame = (time) => {
    const done = still ? 1 : Math.min(1, Math.max(0, time - start) / REVEAL_MS);
    const eased = 1 - (1 - done) ** 3;
    const at = high + (truth - high) * eased;
    put(at, done < 1 ? decimals(at, digits) : String(truth));
    if (done < 1) requestAnimationFrame(frame);
  };
  put(high, "");
  requestAnimationFrame(frame);
}

/** Remember a guess on a scale, and say its distance. */
function judge(field, id) {
  const slider = field.querySelector('[type="range"]');
  const truth = slider && numberIn(field.dataset.answer);
  if (!slider || truth === null) return "";
  record(id, Number(slider.value), truth);
  return ` ${distance(Number(slider.value), truth, field.dataset.unit)}`;
}

function reveal(question, picture, isSkipped) {
  const fields = [...question.querySelectorAll("[data-guess]")];
  const nothing = {words: null, value: null, at: null};
  const guesses = fields.map((field) => (isSkipped ? nothing : answerOf(field)));
  const outcomes = fields.map((field, i) => unbroken(outcome(guesses[i].words, field.dataset.answer) + (isSkipped ? "" : judge(field, `${question.id}-${i + 1}`))));
  fields.forEach((field, i) => {
    field.querySelector("[data-outcome]").textContent = outcomes[i];
    for (const input of field.querySelectorAll("input")) input.disabled = true;
    if (!isSkipped) slideIn(field);
  });
  question.classList.add("revealed");
  question.querySelector(".button-row").remove();
  question.querySelector("[data-said]").textContent = outcomes.join(" ");
  picture.hidden = false;
  markOn(picture, guesses);
  for (const widget of picture.querySelectorAll("[data-widget]")) {
    widget.dataset.guesses = JSON.stringify(guesses); // for a script that loads later
    widget.dispatchEvent(new CustomEvent("guessed", {detail: guesses}));
  }
  picture.tabIndex = -1;
  picture.focus({preventScroll: true});
  showScore();
}

/** Scroll to the answers if less than half of the picture below them is in view. */
function bringNear(question, picture) {
  const {top, bottom, height} = picture.getBoundingClientRect();
  if (Math.min(innerHeight, bottom) - top > height / 2) return;
  question.scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"});
}

/** Write the score into the rail; it is hidden before the first guess. */
function showScore() {
  const place = document.querySelector("[data-guess-score]");
  if (!place) return;
  const {close, all} = countsOf();
  place.hidden = all === 0;
  place.querySelector("[data-guess-count]").textContent = `${close} of ${all}`;
}

/** An untouched disc is hollow, and no guess: the first move, a press on it or Enter makes it one. */
function wireSlider(slider, ready) {
  const field = slider.closest("[data-guess]");
  const output = field.querySelector("output");
  const say = () => {
    const words = slider.value + field.dataset.unit;
    slider.dataset.moved = "";
    output.textContent = words;
    slider.setAttribute("aria-valuetext", words);
    ready();
  };
  slider.setAttribute("aria-valuetext", "no guess yet");
  slider.addEventListener("input", say);
  slider.addEventListener("click", say);
  slider.addEventListener("keydown", ({key}) => key === "Enter" && say());
}

function wire(question) {
  const picture = document.querySelector(`[data-predicted="${question.dataset.predict}"]`);
  const button = question.querySelector("[data-reveal]");
  const [words, waiting] = [button.textContent, button.dataset.waiting];
  const fields = [...question.querySelectorAll("[data-guess]")];
  const missing = () => fields.find((field) => !field.querySelector("[data-moved], :checked"));
  const ready = () => {
    const isReady = !missing();
    button.textContent = isReady ? words : waiting;
    button.classList.toggle("primary", isReady);
    button.toggleAttribute("data-waits", !isReady);
  };
  const show = (isSkipped) => {
    removeEventListener("hashchange", follow);
    reveal(question, picture, isSkipped);
  };
  const showBelow = (isSkipped) => {
    show(isSkipped);
    bringNear(question, picture);
  };
  const confirm = () => (missing() ? missing().querySelector("input").focus() : showBelow(false));
  /** Show the picture if the address links to an element in it. */
  const follow = () => {
    const named = document.getElementById(fragment(location.hash));
    if (picture.contains(named)) show(true);
  };
  for (const slider of question.querySelectorAll('[type="range"]')) {
    wireSlider(slider, ready);
    slider.addEventListener("keydown", ({key}) => key === "Enter" && confirm());
  }
  for (const choice of question.querySelectorAll('[type="radio"]')) choice.addEventListener("change", ready);
  button.addEventListener("click", confirm);
  question.querySelector("[data-skip]").addEventListener("click", () => showBelow(true));
  addEventListener("hashchange", follow);
  picture.hidden = true;
  ready();
  follow();
}

if (globalThis.document) {
  document.querySelectorAll("[data-predict]").forEach(wire);
  showScore();
}
