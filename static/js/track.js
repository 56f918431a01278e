/*
 * Reading track of the chapters, "intuition" or "full": the track in the address (?track=…), otherwise the track
 * stored in this browser.
 * A classic script in the head sets the track before the first paint, so that formal parts do not appear and vanish.
 * Each change dispatches "trackchange" on `document`.
 */
(() => {
  const root = document.documentElement;
  const KEY = "track";
  const valid = (name) => (["intuition", "full"].includes(name) ? name : null);

  const remembered = () => {
    try {
      const stored = localStorage.getItem(KEY);
      if (stored !== null && !valid(stored)) localStorage.removeItem(KEY); // invalid, or written by an older version
      return valid(stored);
    } catch {
      return null; // storage is blocked
    }
  };
  const remember = (track) => {
    try {
      localStorage.setItem(KEY, track);
    } catch {
      // storage is blocked: the choice applies to this page only
    }
  };
  const show = (track) => {
    root.dataset.track = track;
    for (const radio of document.querySelectorAll("[data-track-switch] input")) radio.checked = radio.value === track;
    document.dispatchEvent(new Event("trackchange"));
  };
  /* Switch to the full track if the address links to an element that the intuition track hides. */
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.closest(".full") || root.dataset.track === "full") return;
    show("full");
    target.scrollIntoView();
  };

  const requested = valid(new URLSearchParams(location.search).get(KEY));
  if (requested) remember(requested); // so that other chapters open with this track
  root.dataset.track = requested ?? remembered() ?? "full";

  document.addEventListener("DOMContentLoaded", () => {
    const places = document.querySelector("[data-track-switch]");
    if (!places) return;
    places.addEventListener("change", ({target}) => {
      remember(target.value);
      const address = new URL(location.href);
      address.searchParams.set(KEY, target.value);
      history.replaceState(null, "", address);
      show(target.value);
    });
    show(root.dataset.track);
    follow();
    addEventListener("hashchange", follow);
  });
})();
