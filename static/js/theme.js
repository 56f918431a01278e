/*
 * Light and dark theme. The page follows the system until the visitor chooses a theme; this browser stores the
 * choice.
 * A classic script in the head sets the theme before the first paint. Each change dispatches "themechange" on
 * `document`, so that charts redraw. It also shows "Teach" in the navigation of a browser that teaches a class.
 */
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  const remembered = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // storage is blocked
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // storage is blocked: the choice applies to this page only
    }
  };
  const buttons = () => document.querySelectorAll("[data-theme-switch]");
  /* The button is labelled with the theme that it switches to. */
  const label = (button) => {
    button.querySelector("[data-theme-name]").textContent = isDark() ? "Light" : "Dark";
  };
  const announce = () => {
    buttons().forEach(label);
    document.dispatchEvent(new CustomEvent("themechange", {detail: {dark: isDark()}}));
  };

  const stored = remembered("theme");
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  root.toggleAttribute("data-teaches", remembered("teaches") !== null);

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
