/** Copying of a run's texts, and its card as PNG. */

import {rastered} from "../../lib/picture.js";
import {follow} from "../../lib/svg.js";

const root = document.querySelector("[data-take-along]");

for (const button of root.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button.closest("details")));
root.querySelector("[data-card]")?.addEventListener("click", (event) => saveCard(event.currentTarget));

async function copy(box) {
  const text = box.querySelector("[data-text]");
  const line = box.querySelector("[data-copied]");
  try {
    await navigator.clipboard.writeText(text.textContent);
    line.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(text);
    line.textContent = "Selected; copy it with your keyboard";
  }
}

async function saveCard({dataset: {card, file}}) {
  const answer = await fetch(card);
  if (!answer.ok) return;
  const text = await answer.text();
  const [width, height] = text.match(/viewBox="0 0 (\d+) (\d+)"/).slice(1).map(Number);
  follow(`${file}.png`, await rastered(text, width, height, 1));
}
