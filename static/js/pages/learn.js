/**
 * Chapters and their list: read marks, current section, and small conveniences.
 * The pages are complete without this script. Read marks stay in this browser.
 */

import {wireTerms} from "../lib/terms.js";
import {eraseGuesses} from "../widgets/common/score.js";

const KEY = "chapters-read";
const TRACK = "track"; // see track.js
const WIDE = "(min-width: 68.01rem)"; // layout with the navigation in a column of its own

/** Pure: slugs from stored text. Invalid text is empty, and slugs of removed chapters are dropped. */
export function parseRead(text, known) {
  try {
    const slugs = JSON.parse(text ?? "[]");
    return Array.isArray(slugs) ? [...new Set(slugs.filter((slug) => known.includes(slug)))] : [];
  } catch {
    return [];
  }
}

/** Pure: slugs with one added or removed. */
export function toggled(slugs, slug) {
  return slugs.includes(slug) ? slugs.filter((other) => other !== slug) : [...slugs, slug];
}

/** Pure: index of the current section: the last one whose heading is above the line. */
export function currentSection(tops, line) {
  const passed = tops.findLastIndex((top) => top <= line);
  return Math.max(passed, 0);
}

/** Stored read marks; without storage they last as long as the page. */
const store = {
  known: [],
  read() {
    try {
      return parseRead(localStorage.getItem(KEY), this.known);
    } catch {
      return [];
    }
  },
  erase() {
    this.write([]);
    eraseGuesses();
    try {
      localStorage.removeItem(TRACK);
    } catch {
      // storage is blocked
    }
  },
  write(slugs) {
    try {
      if (slugs.length) localStorage.setItem(KEY, JSON.stringify(slugs));
      else localStorage.removeItem(KEY);
    } catch {
      // storage is blocked
    }
  },
};

/** Text for screen readers only. */
function unseen(words) {
  const span = document.createElement("span");
  span.className = "visually-hidden";
  span.textContent = words;
  return span;
}

function showList(list) {
  const items = [...list.querySelectorAll("[data-chapter]")];
  const isRail = list.matches(".rail *");
  const read = store.read();
  for (const item of items) {
    item.querySelector(".read-sign")?.remove();
    if (!read.includes(item.dataset.chapter)) continue;
    const sign = document.createElement("span");
    sign.className = "read-sign";
    sign.textContent = isRail ? "✓" : "✓ read";
    if (isRail) sign.append(unseen(" read"));
    item.querySelector("a").append(sign);
  }
  const note = document.querySelector("[data-progress]");
  if (!note) return;
  const count = items.filter((item) => read.includes(item.dataset.chapter)).length;
  showWay(items, read, count);
  note.hidden = count === 0;
  note.querySelector("[data-progress-text]").textContent = `${count} of ${items.length} chapters read.`;
}

/** Shows the share that was read as a ring, and frames the chapter that comes next. */
function showWay(items, read, count) {
  document.querySelector("[data-ring]").style.strokeDasharray = `${count / items.length} 1`;
  document.querySelector("[data-count]").textContent = `${count} of ${items.length}`;
  const next = items.find((item) => !read.includes(item.dataset.chapter));
  for (const item of items) {
    item.classList.toggle("next", item === next);
    item.querySelector(".next-sign")?.remove();
  }
  if (!next) return;
  const sign = document.createElement("span");
  sign.className = "next-sign";
  sign.textContent = count ? "next" : "start here";
  next.querySelector("a").append(sign);
}

function wireList(list) {
  store.known = [...list.querySelectorAll("[data-chapter]")].map((item) => item.dataset.chapter);
  showList(list);
  document.querySelector("[data-erase]")?.addEventListener("click", () => {
    store.erase();
    showList(list);
  });
  addEventListener("storage", () => showList(list));
}

function wireReadButton(button, slug, list) {
  const show = () => {
    button.setAttribute("aria-pressed", String(store.read().includes(slug)));
  };
  button.addEventListener("click", () => {
    store.write(toggled(store.read(), slug));
    showList(list);
    show();
  });
  button.hidden = false;
  show();
}

function wireRail(rail) {
  const links = [...rail.querySelectorAll("a")];
  const headings = links.map((link) => document.getElementById(link.hash.slice(1)));
  let waiting = false;
  const show = () => {
    waiting = false;
    const isShown = headings.map((heading) => heading.getClientRects().length > 0); // the track can hide sections
    links.forEach((link, i) => {
      link.parentElement.hidden = !isShown[i];
    });
    const shown = links.map((_, i) => i).filter((i) => isShown[i]);
    const tops = shown.map((i) => headings[i].getBoundingClientRect().top);
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const now = shown[atEnd ? shown.length - 1 : currentSection(tops, innerHeight / 3)];
    links.forEach((link, i) => (i === now ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  const later = () => {
    if (!waiting) requestAnimationFrame(show);
    waiting = true;
  };
  addEventListener("scroll", later, {passive: true});
  addEventListener("resize", later, {passive: true});
  document.addEventListener("trackchange", later);
  show();
}

/** The style sheet shows the explanations of a quiz; this announces them to screen readers. */
function wireQuiz(quiz) {
  const status = document.createElement("p");
  status.className = "visually-hidden";
  status.setAttribute("role", "status");
  quiz.append(status);
  quiz.addEventListener("change", ({target}) => {
    const answer = target.closest("li");
    status.textContent = `${answer.querySelector(".verdict").textContent}. ${answer.querySelector(".why").textContent}`;
  });
}

function wireFormula(formula) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "text-button";
  button.textContent = "Copy TeX";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(formula.dataset.tex);
      button.textContent = "Copied";
    } catch {
      const code = document.createElement("code");
      code.textContent = formula.dataset.tex;
      button.replaceWith(code);
      getSelection().selectAllChildren(code);
    }
  });
  formula.querySelector("figcaption").append(" ", button);
}

/** A keyboard reaches a formula that is wider than the page, and scrolls it. */
function wireScroll(box) {
  if (box.scrollWidth <= box.clientWidth) return;
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Formula, scrolls sideways");
}

function start() {
  const list = document.querySelector("[data-chapters]");
  if (list) wireList(list);
  const chapter = document.querySelector(".article[data-chapter]");
  if (!chapter) return;
  const step = chapter.dataset.chapter;
  wireReadButton(chapter.querySelector("[data-read]"), step, list);
  chapter.querySelector("[data-rail-chapters]").open = matchMedia(WIDE).matches;
  wireRail(chapter.querySelector("[data-rail]"));
  wireTerms(chapter);
  chapter.querySelectorAll(".quiz").forEach(wireQuiz);
  const formulas = chapter.querySelectorAll(".formula-scroll");
  document.fonts.ready.then(() => formulas.forEach(wireScroll)); // a late font changes their widths
  if (navigator.clipboard) chapter.querySelectorAll(".formula[data-tex]").forEach(wireFormula);
  if (typeof window.track === "function") window.track("learning_step_open", {step});
}

if (globalThis.document) start();
