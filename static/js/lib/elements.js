/** Elements of a page made by script. */

/**
 * @param {string} name of the element
 * @param {Record<string, string | number>} [attributes] "" is set, null and undefined are not
 * @param {...(Node | string | number)} content
 */
export function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...content.map((part) => (part instanceof Node ? part : String(part))));
  return made;
}
