/** The groups of settings: each says its values under its name, and opens below it. */

export class SettingGroups {
  /** @param {HTMLElement} form @param {import("./query.js").Field[]} fields */
  constructor(form, fields) {
    this.groups = [...form.querySelectorAll("[data-group]")].map((element) => ({
      element,
      button: element.querySelector(".group-head button"),
      says: element.querySelector(".group-says"),
      fields: fields.filter(({group}) => group === element.dataset.group),
    }));
    for (const group of this.groups) group.button.addEventListener("click", () => open(group, !isOpen(group)));
  }

  /** Say what is set. @param {Record<string, string>} texts of every box @param {Record<string, string>} chosen member of each switch */
  update(texts, chosen) {
    for (const {says, fields} of this.groups) says.textContent = inShort(fields, texts, chosen);
  }

  /** Open the groups of these settings. @param {string[]} names */
  show(names) {
    for (const group of this.groups) {
      if (group.fields.some(({name}) => names.includes(name))) open(group, true);
    }
  }
}

function isOpen({element}) {
  return element.hasAttribute("data-open");
}

function open({element, button}, wanted) {
  element.toggleAttribute("data-open", wanted);
  button.setAttribute("aria-expanded", String(wanted));
}

/** Pure: in a line what those of the fields are set to that count and show; the server says the same at first. */
export function inShort(fields, texts, chosen) {
  const isOpenRun = texts.private === "false";
  const shown = fields.filter((field) => !field.folded && field.kind !== "boolean" && !(isOpenRun && field.private_only) && texts[field.name] !== "" &&
    (field.switch === "" || chosen[field.switch] === field.name));
  const words = shown.map(({name, kind, choices, symbol, label}) => {
    if (kind === "choice") return choices[texts[name]] ?? texts[name];
    return `${symbol || label.charAt(0).toLowerCase() + label.slice(1)} ${texts[name]}`;
  });
  if (isOpenRun && fields[0].name === "private") words.unshift("without privacy");
  return words.join(", ");
}
