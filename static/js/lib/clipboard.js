/** Copying to the clipboard, which a browser may refuse. */

/** Copy a text that the address bar shows, and say in `line` how it went. */
export async function copyText(text, line) {
  try {
    await navigator.clipboard.writeText(text);
    line.textContent = "Copied";
  } catch {
    line.textContent = "Copy it from the address bar";
  }
}
