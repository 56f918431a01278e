/**
 * Two predictions before a picture: the picture is hidden until both are made, then answers appear under them.
 * Predictions with a position in the drawing are marked there. Widgets in the picture receive a "guessed" event.
 */

import {diamond, make, scale, text} from "../../lib/svg.js";

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

/** Mark a prediction on both drawings of a picture; widgets have axes of their own and mark it themselves. */
function markOn(picture, guess) {
  for (const svg of picture.querySelectorAll("svg[data-x]")) {
    if (svg.closest("[data-widget]")) continue;
    const point = pixelOf(guess, readScale(svg.dataset.x), readScale(svg.dataset.y));
    if (!point) continue;
    const [x, y] = point;
    const isRight = x > 0.7 * svg.viewBox.baseVal.width;
    svg.append(
      make(diamond(point, 7, "guess-mark")),
      make(text([x + (isRight ? -13 : 13), y + 4], `you: ${guess.words}`, "ink halo", isRight ? "end" : "start")),
    );
  }
}

function reveal(question, picture, isSkipped) {
  const fields = [...question.querySelectorAll("[data-guess]")];
  const nothing = {words: null, value: null, at: null};
  const guesses = fields.map((field) => (isSkipped ? nothing : answerOf(field)));
  const outcomes = fields.map((field, i) => outcome(guesses[i].words, field.dataset.answer));
  fields.forEach((field, i) => {
    field.querySelector("[data-outcome]").textContent = outcomes[i];
    for (const input of field.querySelectorAll("input")) input.disabled = true;
  });
  question.querySelector(".button-row").remove();
  question.querySelector("[data-said]").textContent = outcomes.join(" ");
  picture.hidden = false;
  guesses.forEach((guess) => markOn(picture, guess));
  for (const widget of picture.querySelectorAll("[data-widget]")) {
    widget.dataset.guesses = JSON.stringify(guesses); // for a script that loads later
    widget.dispatchEvent(new CustomEvent("guessed", {detail: guesses}));
  }
  picture.tabIndex = -1;
  picture.focus();
}

function wire(question) {
  const picture = document.querySelector(`[data-predicted="${question.dataset.predict}"]`);
  for (const slider of question.querySelectorAll('[type="range"]')) {
    const field = slider.closest("[data-guess]");
    const say = () => {
      const words = slider.value + field.dataset.unit;
      field.querySelector("output").textContent = words;
      slider.setAttribute("aria-valuetext", words);
    };
    slider.addEventListener("input", say);
    say();
  }
  const show = (isSkipped) => {
    removeEventListener("hashchange", follow);
    reveal(question, picture, isSkipped);
  };
  /** Show the picture if the address links to an element in it. */
  const follow = () => {
    const named = document.getElementById(fragment(location.hash));
    if (picture.contains(named)) show(true);
  };
  question.querySelector("[data-reveal]").addEventListener("click", () => show(false));
  question.querySelector("[data-skip]").addEventListener("click", () => show(true));
  addEventListener("hashchange", follow);
  picture.hidden = true;
  follow();
}

if (globalThis.document) document.querySelectorAll("[data-predict]").forEach(wire);
