/**
 * Starts the widgets of a page. One that fails, at its start or later, gives its drawing back and says so in one line.
 */

const FAILED = "The moving version does not work in this browser; the picture and its table say the same.";

/** @typedef {{mount: (element: HTMLElement, data: any) => void}} Script */

const part = (element, name) => element.querySelector(name);

/** @param {HTMLElement} element the figure @param {(address: string) => Promise<Script>} load */
export async function start(element, load = (address) => import(address)) {
  const title = part(element, '[data-part="title"]');
  const first = title.textContent;
  const fail = (error) => {
    console.error(error);
    part(element, "[data-live]").hidden = true;
    part(element, "[data-still]").hidden = false;
    part(element, "[data-note]").textContent = FAILED;
    title.textContent = first;
    element.dataset.state = "failed";
  };
  try {
    const data = JSON.parse(part(element, "[data-widget-data]").textContent);
    const {mount} = await load(element.dataset.widget);
    part(element, "[data-live]").hidden = false;
    mount(element, data);
    part(element, "[data-still]").hidden = true;
    element.dataset.state = "moves";
  } catch (error) {
    fail(error);
    return;
  }
  globalThis.addEventListener?.("error", ({error}) => {
    if (comesFrom(element.dataset.widget, error)) fail(error);
  });
}

/** Pure: whether an error was thrown below a script, by the addresses that its stack lists. */
export function comesFrom(address, error) {
  return String(error?.stack).includes(`${address}:`);
}

if (globalThis.document) document.querySelectorAll("[data-widget]").forEach((element) => start(element));
