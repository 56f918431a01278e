/* Intuition or Full: the track that a chapter's address names (?track=…), else the last one in this browser.
   A plain script in the head, so that formal parts are not painted first and taken away then.
   On a change, `document` gets a "trackchange" event. */
(() => {
  const root = document.documentElement;
  const KEY = "track";
  const known = (name) => (["intuition", "full"].includes(name) ? name : null);

  const remembered = () => {
    try {
      const stored = localStorage.getItem(KEY);
      if (stored !== null && !known(stored)) localStorage.removeItem(KEY); // broken, or of an older version
      return known(stored);
    } catch {
      return null; // storage is switched off
    }
  };
  const remember = (track) => {
    try {
      localStorage.setItem(KEY, track);
    } catch {
      // storage is switched off: the choice holds for this page
    }
  };
  const show = (track) => {
    root.dataset.track = track;
    for (const radio of document.querySelectorAll("[data-track-switch] input")) radio.checked = radio.value === track;
    document.dispatchEvent(new Event("trackchange"));
  };
  /* A link may lead into a part that the track leaves out. */
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.closest(".full") || root.dataset.track === "full") return;
    show("full");
    target.scrollIntoView();
  };

  const asked = known(new URLSearchParams(location.search).get(KEY));
  if (asked) remember(asked); // other chapters keep to it
  root.dataset.track = asked ?? remembered() ?? "full";

  document.addEventListener("DOMContentLoaded", () => {
    const places = document.querySelector("[data-track-switch]");
    if (!places) return;
    places.hidden = false;
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
