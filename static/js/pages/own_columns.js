/** Type and bounds of several columns at once, in the form that describes an own table. */

const many = document.querySelector("[data-many]");
const [kind, text, button, all] = ["#many-kind", "#many-text", "[data-set]", "[data-all]"].map((name) => many.querySelector(name));
const columns = [...document.querySelectorAll("[data-column]")].map((place) => {
  const [legend, select, input] = ["legend", "select", "input"].map((name) => place.querySelector(name));
  const tick = Object.assign(document.createElement("input"), {type: "checkbox", autocomplete: "off"});
  const label = document.createElement("label");
  label.className = "tick";
  label.append(tick, ` ${legend.textContent}`);
  legend.replaceChildren(label);
  tick.addEventListener("change", count);
  return {tick, select, input};
});

all.addEventListener("change", () => {
  for (const {tick} of columns) tick.checked = all.checked;
  count();
});
button.addEventListener("click", () => {
  for (const {tick, select, input} of columns.filter(({tick}) => tick.checked)) {
    [select.value, input.value, tick.checked] = [kind.value, text.value, false];
  }
  all.checked = false;
  count();
});
count();

function count() {
  const number = columns.filter(({tick}) => tick.checked).length;
  button.disabled = number === 0;
  button.textContent = number === 1 ? "Set 1 column" : `Set ${number} columns`;
}
