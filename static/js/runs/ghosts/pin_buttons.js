/** Buttons that pin a run as a ghost on Train, wherever they stand. */

import {MOST, isPinned, onPinned, pin, unpin} from "./pinned.js";

/**
 * @param {HTMLElement} root holds [data-pin] buttons, now or later
 * @param {(words: string) => void} say
 */
export function wirePins(root, say) {
  showPins(root);
  onPinned(() => showPins(root));
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-pin]");
    if (button) toggle(button.dataset.pin, say);
  });
}

/** Show on each button whether its run is pinned. */
export function showPins(root) {
  for (const button of root.querySelectorAll("[data-pin]")) {
    const pressed = isPinned(button.dataset.pin);
    button.setAttribute("aria-pressed", String(pressed));
    button.textContent = button.dataset.words ? button.dataset.words.split("|")[Number(pressed)] : pressed ? "Pinned" : "Pin";
  }
}

function toggle(id, say) {
  if (isPinned(id)) {
    unpin(id);
    say("No longer pinned on Train.");
  } else if (pin(id)) say("Pinned: Train shows it behind the next run.");
  else say(`At most ${MOST} runs can be pinned on Train. Remove one first.`);
}
