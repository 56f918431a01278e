/** Starts the widgets of a page. One that fails keeps its drawing and says so in one line. */

const FAILED = "The moving version could not start in this browser; the picture and its table say the same.";

/**
 * @param {HTMLElement} element the figure
 * @param {(address: string) => Promise<{mount: (element: HTMLElement, data: any) => void}>} load
 */
export async function start(element, load = (address) => import(address)) {
  const [still, live, note, title] = ["[data-still]", "[data-live]", "[data-note]", '[data-part="title"]'].map((name) => element.querySelector(name));
  const first = title.textContent;
  try {
    const data = JSON.parse(element.querySelector("[data-widget-data]").textContent);
    const {mount} = await load(element.dataset.widget);
    live.hidden = false;
    mount(element, data);
    still.hidden = true;
    element.dataset.state = "moves";
  } catch (error) {
    console.error(error);
    live.hidden = true;
    title.textContent = first;
    note.textContent = FAILED;
    element.dataset.state = "failed";
  }
}

if (globalThis.document) document.querySelectorAll("[data-widget]").forEach((element) => start(element));
