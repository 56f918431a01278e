/** Landing page: a guided first visit, shown once per browser. */

const KEY = "first-visit";
const DONE = "done";
const OPENING = "New here? Three steps, 60 seconds.";

/** Pure: true before the first visit; invalid or older stored values count as a visit. */
export const isDue = (stored) => stored === null;

/** Pure: text and button of a step; null while the visitor has to act. */
export function said(step, level = null) {
  return [
    [OPENING, "Start"],
    ["1 of 3. The same training, with one record and without it: two worlds. Move the noise to the right, with → or by hand, until they overlap.", null],
    [level && `2 of 3. Merged: an attacker of this run is right at most ${level.limit} times in 100, and the model is right on ${level.accuracy} of 100 unseen records. Nothing but σ has moved. σ is the noise in units of C, the longest gradient that a record may have: privacy comes from the ratio.`, "Ask me"],
    ["3 of 3. Which setting changes ε? Choose an answer.", null],
    ["That was it. Continue with the chapters, or run it for real in the trainer.", "Close"],
  ][step];
}

const store = {
  read() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return DONE; // storage is blocked, so the tour could not be limited to one visit
    }
  },
  finish() {
    try {
      localStorage.setItem(KEY, DONE);
    } catch {
      // storage is blocked
    }
  },
};

function guide(strip, slider, question) {
  const [words, next, skip] = ["words", "next", "skip"].map((name) => strip.querySelector(`[data-${name}]`));
  let step = 0;
  const go = (to, level) => {
    step = to;
    const [text, label] = said(step, level);
    words.textContent = text;
    next.hidden = label === null;
    next.textContent = label ?? "";
    skip.hidden = step === 4;
    strip.classList.toggle("going", step > 0);
  };
  const close = () => {
    store.finish();
    strip.hidden = true;
    document.getElementById("main").focus({preventScroll: true});
  };
  const follow = [
    () => {
      store.finish();
      go(1);
      slider.focus();
      slider.closest("figure").scrollIntoView({block: "start"});
    },
    null,
    () => {
      go(3);
      question.querySelector("input").focus();
      question.scrollIntoView({block: "center"});
    },
    null,
    close,
  ];
  next.addEventListener("click", () => follow[step]?.());
  skip.addEventListener("click", close);
  strip.addEventListener("keydown", ({key}) => key === "Escape" && close());
  document.addEventListener("level", ({detail}) => {
    if ((step === 1 && detail.isMerged) || step === 2) go(2, detail);
  });
  question.addEventListener("change", () => step === 3 && go(4));
  strip.hidden = false;
}

function start() {
  const strip = document.querySelector("[data-first-visit]");
  const slider = document.querySelector('#noise [data-part="noise"]');
  const question = document.querySelector(".quiz");
  if (slider && isDue(store.read())) guide(strip, slider, question);
}

if (globalThis.document) start();
