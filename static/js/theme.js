/* Light or dark: the system's wish until the visitor switches; the choice stays in this browser.
   A plain script in the head, so that the page is never painted in the wrong colours first.
   On a change, `document` gets a "themechange" event, so that charts can redraw. */
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  const remembered = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage is switched off: the system's wish holds
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // storage is switched off: the choice holds for this page
    }
  };
  const buttons = () => document.querySelectorAll("[data-theme-switch]");
  /* The button says what pressing it brings. */
  const label = (button) => {
    button.querySelector("[data-theme-name]").textContent = isDark() ? "Light" : "Dark";
  };
  const announce = () => {
    buttons().forEach(label);
    document.dispatchEvent(new CustomEvent("themechange", {detail: {dark: isDark()}}));
  };

  const stored = remembered();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of buttons()) {
      button.hidden = false;
      label(button);
      button.addEventListener("click", () => {
        root.dataset.theme = isDark() ? "light" : "dark";
        remember(root.dataset.theme);
        announce();
      });
    }
  });
  system.addEventListener("change", announce);
})();
