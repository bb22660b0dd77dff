"use strict";
// What the pages share. Texts of the data only ever become text nodes: a host name cannot become markup.
const data = JSON.parse(document.getElementById("data").textContent);

function add(parent, name, attributes, ...children) {
  const svg = parent.namespaceURI === "http://www.w3.org/2000/svg" || name === "svg";
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  parent.append(made);
  return made;
}
const page = document.getElementById("page");
const section = (title, parent) => { const made = add(parent || page, "section"); add(made, "h2", {text: title}); return made; };
const number = (value) => value === null || value === undefined ? "–" : value === 0 ? "0"
  : Math.abs(value) >= 99.95 ? value.toFixed(0) : Math.abs(value) >= 9.995 ? value.toFixed(1)
  : Math.abs(value) >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
const percent = (share) => (100 * share).toFixed(0) + " %";
const bytes = (count) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) { count /= 1024; ++at; }
  return (Number.isInteger(count) ? count : count.toFixed(1)) + " " + units[at];
};
const seconds = (count) => count < 100 ? number(count) + " s" : Math.floor(count / 60) + " min " + Math.round(count % 60) + " s";
const plural = (count, word) => count + " " + word + (count === 1 ? "" : "s");
const median = (values) => { // the upper one of two, as the judge has it
  if (!values.length) return null;
  const sorted = Float64Array.from(values).sort();
  return sorted[sorted.length >> 1];
};
const note = (text, bad) => add(document.getElementById("notes"), "p", {class: bad ? "note bad" : "note", text});

// Light or dark: as the system has it until the switch is used.
const dark_system = matchMedia("(prefers-color-scheme: dark)");
const on_theme = []; // what draws with colours of its own draws again
let chosen_theme = null;
const is_dark = () => document.documentElement.dataset.theme === "dark";
function set_theme() {
  document.documentElement.dataset.theme = chosen_theme || (dark_system.matches ? "dark" : "light");
  document.getElementById("theme").textContent = is_dark() ? "light" : "dark";
  on_theme.forEach((draw) => draw());
}
document.getElementById("theme").addEventListener("click", () => { chosen_theme = is_dark() ? "light" : "dark"; set_theme(); });
dark_system.addEventListener("change", set_theme);
// On paper always light.
addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; on_theme.forEach((draw) => draw()); });
addEventListener("afterprint", set_theme);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// What one points at. `rows`: [name, text] each.
const tip = add(document.body, "div", {class: "tip", role: "tooltip", hidden: true});
function fill_facts(box, title, rows) {
  box.replaceChildren();
  add(box, "b", {text: title});
  const list = add(box, "dl");
  for (const [name, text] of rows) { add(list, "dt", {text: name}); add(list, "dd", {text}); }
}
function show_tip(x, y, title, rows) {
  fill_facts(tip, title, rows);
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, x + 14 + width > innerWidth ? x - width - 14 : x + 14) + "px";
  tip.style.top = Math.max(4, y + 14 + height > innerHeight ? y - height - 14 : y + 14) + "px";
}
const hide_tip = () => { tip.hidden = true; };

// One of several values; [value, label] each.
function choice(parent, name, values, chosen, changed) {
  const box = add(parent, "span", {class: "choice", role: "radiogroup", "aria-label": name});
  for (const [value, label] of values) {
    const input = add(add(box, "label", {}, label), "input", {type: "radio", name, value, checked: value === chosen});
    input.addEventListener("change", () => changed(value));
  }
}
function select(parent, label, values, chosen, changed) {
  const box = add(add(parent, "label", {text: label + " "}), "select", {"aria-label": label});
  for (const [value, text] of values) add(box, "option", {value, text, selected: value === chosen});
  box.addEventListener("change", () => changed(box.value));
  return box;
}

// columns: {name, value(row), show(value, row), text, wrap, paint(cell, row)}; a click on a head sorts.
function table(parent, columns, rows, name) {
  const made = add(add(parent, "div", {class: "scroll", tabindex: 0, role: "region", "aria-label": name}), "table");
  const head = add(add(made, "thead"), "tr");
  const body = add(made, "tbody");
  let sorted_by = -1, down = false;
  const fill = () => {
    body.replaceChildren();
    for (const row of rows) {
      const line = add(body, "tr");
      for (const column of columns) {
        const value = column.value(row);
        const cell = add(line, "td", {class: column.wrap ? "wrap" : column.text ? "text" : undefined,
                                      text: column.show ? column.show(value, row) : column.text ? value : number(value)});
        if (column.text && cell.textContent.length > 40) cell.title = cell.textContent;
        if (column.paint) column.paint(cell, row);
      }
    }
  };
  const sort_by = (index) => {
    down = sorted_by === index ? !down : false;
    sorted_by = index;
    const {value, text} = columns[index];
    const order = (a, b) => text ? String(a).localeCompare(String(b), undefined, {numeric: true})
      : (a === null || a === undefined) - (b === null || b === undefined) || a - b;
    rows.sort((a, b) => (down ? -1 : 1) * order(value(a), value(b)));
    [...head.children].forEach((cell, at) => cell.setAttribute("aria-sort", at !== index ? "none" : down ? "descending" : "ascending"));
    fill();
  };
  columns.forEach((column, index) => {
    const cell = add(head, "th", {class: column.text || column.wrap ? "text" : undefined, scope: "col"});
    add(cell, "button", {type: "button", text: column.name, title: "sort", onclick: () => sort_by(index)});
  });
  fill();
  return fill;
}

// A text to copy; without a clipboard (a file opened from disk may have none) it is selected.
function copy_box(parent, text, label) {
  const box = add(parent, "div", {class: "copy"});
  const area = add(box, "textarea", {readonly: true, rows: text.length > 120 ? 3 : 1, "aria-label": label});
  area.value = text;
  const button = add(box, "button", {type: "button", text: "copy"});
  button.addEventListener("click", async () => {
    area.select();
    try { await navigator.clipboard.writeText(text); button.textContent = "copied"; }
    catch { button.textContent = document.execCommand("copy") ? "copied" : "press Ctrl-C"; }
  });
}
// Numbers of an axis have no more digits than their step.
const tick_text = (tick, step) => tick.toFixed(Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9))));
const nice_step = (range, count) => {
  const raw = range / count, power = 10 ** Math.floor(Math.log10(raw)), rest = raw / power;
  return power * (rest < 1.5 ? 1 : rest < 3.5 ? 2 : rest < 7.5 ? 5 : 10);
};
