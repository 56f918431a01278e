/** Colours and type live in CSS custom properties; charts read them here. */

/** A reader of the tokens as they are now: `color("--series-private")`. */
export function tokens(element = document.documentElement) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}

/** Red, green and blue of a colour as `getComputedStyle` gives it, "rgb(26, 32, 38)". */
export function rgb(computed) {
  return computed.match(/\d+/g).slice(0, 3).map(Number);
}

/** Call back when light and dark are switched, and when one of the elements changes its size. */
export function onLookChange(elements, callback) {
  const root = document.documentElement;
  new MutationObserver(callback).observe(root, {attributeFilter: ["data-theme"]});
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
  const sizes = new ResizeObserver(callback);
  for (const element of elements) sizes.observe(element);
}
