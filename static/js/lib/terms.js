/**
 * Glossary terms: a card next to the link shows the definition on hover, focus or tap.
 * Without this script, a term is a plain link to its entry.
 */

const GAP = 6; // px between link and card, and between card and window

/**
 * Pure: position of a card: below the link if there is room, otherwise above it, and always inside the window's
 * sides.
 */
export function placed(link, card, view) {
  const below = link.bottom + GAP;
  const fits = below + card.height <= view.height - GAP;
  const left = Math.min(Math.max(link.left, GAP), Math.max(view.width - card.width - GAP, GAP));
  return {left, top: fits || link.top - GAP - card.height < 0 ? below : link.top - GAP - card.height};
}

/** Show definitions for all `a.term` within an element. */
export function wireTerms(root) {
  if (!root.querySelector("a.term")) return;
  const card = document.createElement("div");
  card.id = "term-card";
  card.className = "term-card";
  card.setAttribute("role", "tooltip");
  card.hidden = true;
  document.body.append(card);
  let shown = null;
  let closing = 0;

  function hide() {
    clearTimeout(closing);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    card.hidden = true;
  }
  function show(link) {
    clearTimeout(closing);
    if (shown === link) return;
    hide();
    shown = link;
    card.textContent = link.dataset.meaning;
    link.setAttribute("aria-describedby", card.id);
    card.hidden = false;
    place();
  }
  function place() {
    const {left, top} = placed(shown.getClientRects()[0], card.getBoundingClientRect(), {width: document.documentElement.clientWidth, height: innerHeight});
    card.style.left = `${left}px`;
    card.style.top = `${top}px`;
  }
  /** Close after a delay, so that the pointer can move from the link onto the card. */
  function hideSoon() {
    clearTimeout(closing);
    closing = setTimeout(hide, 200);
  }

  for (const link of root.querySelectorAll("a.term")) {
    link.addEventListener("pointerenter", ({pointerType}) => pointerType === "mouse" && show(link));
    link.addEventListener("pointerleave", ({pointerType}) => pointerType === "mouse" && hideSoon());
    link.addEventListener("focus", () => link.matches(":focus-visible") && show(link));
    link.addEventListener("blur", hide);
    link.addEventListener("click", (event) => {
      if (event.pointerType !== "touch" || shown === link) return; // a second tap follows the link
      event.preventDefault();
      show(link);
    });
  }
  card.addEventListener("pointerenter", () => clearTimeout(closing));
  card.addEventListener("pointerleave", hideSoon);
  addEventListener("keydown", ({key}) => key === "Escape" && hide());
  // The focus scrolls to a term that is out of view, and the page may scroll under the pointer: the card moves along.
  addEventListener("scroll", () => (shown?.matches(":hover, :focus") ? place() : hide()), {passive: true});
  addEventListener("pointerdown", ({target}) => !card.contains(target) && target !== shown && hide());
}
