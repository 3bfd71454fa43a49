// Shared by all charts: data, colours from the style sheet, number formats, small controls.

const data = JSON.parse(document.getElementById("run-data").textContent);

// The current selection, shared by all sections.
const state = { level: data.level, subject: -1, stage: "response", cell: 0 };

function element(tag, cls, text) {
  const made = document.createElement(tag);
  if (cls) made.className = cls;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Reads the colour of a class; the value depends on the colour scheme.
const probes = new Map();
function color(slot) {
  if (!probes.has(slot)) {
    const probe = element("i", "probe-color " + slot);
    probe.hidden = true;
    document.body.append(probe);
    probes.set(slot, probe);
  }
  return getComputedStyle(probes.get(slot)).getPropertyValue("--c").trim();
}
function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const scheme = matchMedia("(prefers-color-scheme: dark)");

function trimmed(value) {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  const text = value.toFixed(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function number(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 1000) return trimmed(value);
  return Math.round(value).toLocaleString("en-US");
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return trimmed(value / 1e6) + "M";
  if (size >= 1e4) return trimmed(value / 1e3) + "k";
  return number(value);
}

function time(us) {
  if (us === null || us === undefined) return "–";
  if (us >= 1e6) return trimmed(us / 1e6) + " s";
  if (us >= 1e3) return trimmed(us / 1e3) + " ms";
  return trimmed(us) + " µs";
}

// Formats a value with three digits, for a legend that changes with the cursor.
function timeFull(us) {
  if (us === null || us === undefined) return "–";
  const [size, unit] = us >= 1e6 ? [1e6, " s"] : us >= 1e3 ? [1e3, " ms"] : [1, " µs"];
  return Number((us / size).toPrecision(3)) + unit;
}

// Creates a group of buttons, or a list for more than seven names.
function choice(label, names, chosen, pick) {
  const group = element("div", "choice");
  const id = "choice-" + label.replace(/\W/g, "") + "-" + choice.count++;
  if (names.length > 7) {
    const select = element("select");
    select.id = id;
    names.forEach((name, index) => select.append(new Option(name, index)));
    select.value = chosen;
    select.addEventListener("change", () => pick(Number(select.value)));
    const title = element("label", "", label);
    title.htmlFor = id;
    group.append(title, select);
    return group;
  }
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", label);
  group.append(element("span", "", label));
  names.forEach((name, index) => {
    const button = element("button", "", name);
    button.type = "button";
    button.setAttribute("aria-pressed", String(index === chosen));
    button.addEventListener("click", () => pick(index));
    group.append(button);
  });
  return group;
}
choice.count = 0;
