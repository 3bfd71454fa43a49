// Requests samples, stores those of the last hour, displays them as PRODUCT defines.
"use strict";

/** Samples by column. */
class History {
  constructor() {
    this.clear([]);
    this.gapMs = 2000;
    this.events = [];
  }

  clear(columns) {
    this.columns = columns;
    this.times = [];
    this.series = new Map(columns.map((column) => [column, []]));
  }

  add(rows, startedMs, keepMs) {
    for (const row of rows) {
      this.times.push(startedMs + row[0] * 1000);
      this.columns.forEach((column, number) => this.series.get(column).push(row[number]));
    }
    const old = this.firstAfter(this.times[this.times.length - 1] - keepMs);
    if (old > 0) {
      this.times.splice(0, old);
      this.series.forEach((values) => values.splice(0, old));
    }
  }

  /** Adds the events of a process to those of the one before it. */
  mark(events, startedMs, nowMs) {
    const before = this.events.filter((event) => event.unix_ms < startedMs && event.unix_ms > nowMs - HOUR_MS);
    this.events = [...before, ...events];
  }

  column(name) {
    return this.series.get(name);
  }

  /** Columns whose name starts with `prefix`. */
  below(prefix) {
    return this.columns.filter((column) => column.startsWith(prefix));
  }

  firstAfter(time) {
    let [low, high] = [0, this.times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The value closest to a time, the latest for null. */
  valueAt(column, time) {
    const values = this.series.get(column);
    if (!values || values.length === 0) return null;
    if (time === null) return values[values.length - 1];
    const next = Math.min(this.firstAfter(time), values.length - 1);
    const closer = next > 0 && time - this.times[next - 1] < this.times[next] - time ? next - 1 : next;
    return values[closer];
  }
}

const HOUR_MS = 3600000;
const page = {
  history: new History(),
  charts: [],
  next: 0,
  started: null,
  newest: null,
  minutes: 15,
  paused: false,
  at: null,
  requesting: false,
};

const find = (id) => document.getElementById(id);

/** The values of a product: the latest of a column, and the sum of the columns with a prefix. */
const latest = {
  now: (column) => page.history.valueAt(column, null),
  sum: (prefix) => page.history.below(prefix).reduce((total, column) => total + (latest.now(column) || 0), 0),
};

/** The level of a tile whose value is high from `warn` on and critical from `bad` on. */
function above(value, warn, bad) {
  if (value === null || value < warn) return "";
  return value < bad ? "warn" : "bad";
}

/** The charts of the product and those of every process; series without a column are left out. */
function chartList(history) {
  const has = ([column]) => history.column(column) !== undefined;
  const each = (prefix, label) => history.below(prefix).map((column) => [column, label(column.slice(prefix.length))]);
  const list = [
    ...PRODUCT.charts(each),
    { title: "CPU usage by thread", format: Format.cores, least: 0.1, series: each("cpu.", (name) => name) },
    { title: "CPU utilization by core", format: Format.percent, least: 1, series: each("core.", (name) => `core ${name}`) },
    { title: "Memory", format: Format.bytes, base: 1024, least: 1048576, series: [["resident", "resident"], ["anonymous", "anonymous"]] },
  ];
  return list.map((one) => ({ ...one, series: one.series.filter(has) })).filter((one) => one.series.length > 0);
}

function buildCharts() {
  page.charts = chartList(page.history).map((options) => new Chart(options));
  find("charts").replaceChildren(...page.charts.map((chart) => chart.element));
  for (const chart of page.charts) {
    chart.plot.addEventListener("pointermove", (event) => point(chart.timeAt(event)));
    chart.plot.addEventListener("pointerleave", () => point(null));
  }
}

function point(time) {
  page.at = time;
  requestAnimationFrame(draw);
}

function draw() {
  const { history, charts } = page;
  if (history.times.length === 0 || page.drawnTo === undefined) return;
  const to = page.drawnTo;
  const from = to - page.minutes * 60000;
  for (const chart of charts) chart.draw(history, from, to, page.at);
}

function showTiles() {
  // Event loops have a thread each, named with their number.
  const busiest = () => Math.max(0, ...page.history.below("cpu.").filter((name) => /-\d+$/.test(name)).map(latest.now));
  const process = ["CPU", ({ now, sum }) => [Format.some(sum("cpu."), "core"), Format.bytes(now("resident")), above(busiest(), 0.8, 0.95)]];
  const tiles = [...PRODUCT.tiles, process].map(([label, text]) => {
    const tile = html("div", "tile");
    const [value, more, level] = text(latest);
    if (level) {
      tile.classList.add(level);
      html("span", "level", tile, level === "bad" ? "critical" : "high");
    }
    html("p", "label", tile, label);
    html("p", "value", tile, value);
    html("p", "more", tile, more);
    return tile;
  });
  find("tiles").replaceChildren(...tiles);
}

/** A titled area that the keyboard can scroll. */
function panel(title) {
  const box = html("div");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", title);
  html("h2", "", box, title);
  return box;
}

/** A table without rows: `head` has a title and a class per column. */
function table({ id, title, head }) {
  const box = panel(title);
  const element = html("table", "", box);
  const titles = html("tr", "", html("thead", "", element));
  head.forEach(([name, className]) => html("th", className, titles, name).setAttribute("scope", "col"));
  html("tbody", "", element).id = id;
  return box;
}

/** Shows the rows of a table, each cell a text or [text, class], and its title, if they are new. */
function fill(box, { title, head, rows }) {
  const shown = JSON.stringify([title, rows]);
  if (box.shown === shown) return;
  box.shown = shown;
  box.setAttribute("aria-label", title);
  box.querySelector("h2").textContent = title;
  const filled = rows.map((cells) => {
    const row = html("tr");
    cells.forEach((cell, number) => {
      const [text, className] = Array.isArray(cell) ? cell : [cell, ""];
      html("td", `${head[number][1]} ${className}`.trim(), row, text);
    });
    return row;
  });
  box.querySelector("tbody").replaceChildren(...filled);
}

/** Shows tables in an area. Those that are there already keep the keyboard and what is scrolled. */
function showTables(area, tables) {
  const boxes = tables.map((one) => {
    const box = [...area.children].find((child) => child.querySelector("tbody")?.id === one.id) || table(one);
    fill(box, one);
    return box;
  });
  const isSame = boxes.length === area.children.length && boxes.every((box, at) => area.children[at] === box);
  if (!isSame) area.replaceChildren(...boxes);
}

function showStatus(kind, text) {
  const status = find("status");
  status.className = `pill ${kind}`;
  if (status.textContent !== text) status.textContent = text;
}

function showState(response) {
  if (response.draining) showStatus("warn", "shutting down");
  else if (PRODUCT.waiting(response)) showStatus("bad", "not ready");
  else showStatus("good", "ready");
  const up = Format.duration(response.now_unix_ms - response.started_unix_ms);
  const parts = [...PRODUCT.facts(response), `Weir ${response.version}`, `up ${up}`];
  const ends = response.certificate_ends_unix_s;
  if (ends) parts.push(`certificate until ${new Date(ends * 1000).toISOString().slice(0, 10)}`);
  find("identity").textContent = parts.join(" · ");
}

/** The banner: what does not work, where, why and since when. It changes only with its text. */
function showProblems({ problems }) {
  const banner = find("problems");
  const lines = problems.map(({ source, address, cause, since_unix_ms: since }) => {
    const place = address ? `${source} (${address})` : source;
    return `${place}: ${cause}, since ${Format.clock(since, true)}`;
  });
  banner.hidden = lines.length === 0;
  const text = lines.join("\n");
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  banner.replaceChildren();
  if (lines.length === 0) return;
  html("h2", "", banner, Format.some(lines.length, "problem"));
  const list = html("ul", "", banner);
  for (const line of lines) html("li", "", list, line);
}

const EVENTS = { start: ["start", ""], reload: ["reload", ""], failed: ["reload failed", "bad"], lost: ["lost", "bad"], recovered: ["recovered", "good"] };

/** Shows events and log, and redraws them only if they are new, to keep what is selected and scrolled. */
function showRecent({ log }) {
  const rows = [...page.history.events].reverse().map(({ unix_ms: time, kind, text }) => [Format.clock(time, true), EVENTS[kind], text]);
  const events = { id: "events", title: "Events", head: [["Time", "time"], ["Event", "time"], ["What", ""]], rows };
  if (!find("events")) find("recent").prepend(table(events));
  fill(find("recent").firstElementChild, events);
  const text = log.length > 0 ? [...log].reverse().join("\n") : "no lines yet";
  if (find("log").textContent !== text) find("log").textContent = text;
}

function take(response) {
  const columns = response.columns.join("\n");
  // The charts continue after a restart, unless the new process has other columns.
  if (page.history.columns.join("\n") !== columns) {
    page.history.clear(response.columns);
    buildCharts();
  }
  page.started = response.started_unix_ms;
  page.history.mark(response.events, response.started_unix_ms, response.now_unix_ms);
  page.next = response.next;
  page.history.gapMs = response.period_ms;
  page.history.add(response.rows, response.started_unix_ms, HOUR_MS);
  page.newest = response;
  find("main").hidden = false;
  find("token").hidden = true;
  show();
}

function show() {
  const response = page.newest;
  if (!response) return;
  showState(response);
  showProblems(response);
  if (page.paused) return;
  page.drawnTo = response.now_unix_ms;
  showTiles();
  showTables(find("tables"), PRODUCT.tables(response, latest));
  showRecent(response);
  find("sessions").hidden = !response.has_session_calls;
  find("clients").hidden = !PRODUCT.clients;
  draw();
}

function askForToken(wrong) {
  find("main").hidden = true;
  find("problems").hidden = true;
  find("token").hidden = false;
  find("refused").textContent = wrong ? "Wrong admin token." : "";
  showStatus("warn", "token required");
  find("secret").focus();
}

async function ask() {
  if (page.requesting || document.hidden) return;
  page.requesting = true;
  try {
    const token = sessionStorage.getItem("weir-admin-token");
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const known = page.started === null ? 0 : page.next;
    const response = await fetch(`/dashboard.json?after=${known}`, { headers, cache: "no-store" });
    if (response.status === 401) {
      sessionStorage.removeItem("weir-admin-token");
      clearInterval(page.timer);
      page.timer = null;
      askForToken(token !== null);
    } else if (response.ok) {
      const samples = await response.json();
      // After a restart, sample numbers start again.
      if (page.started !== null && samples.started_unix_ms !== page.started && known > 0) page.started = null;
      else take(samples);
    } else {
      throw new Error(`status ${response.status}`);
    }
  } catch {
    const since = page.newest ? ` since ${Format.clock(page.newest.now_unix_ms, true)}` : "";
    showStatus("bad", `no response${since}`);
  }
  page.requesting = false;
}

const SESSIONS_TOKEN = "weir-sessions-token";

function forgetSessions(text) {
  sessionStorage.removeItem(SESSIONS_TOKEN);
  find("listed").replaceChildren();
  find("forget").hidden = true;
  find("denied").textContent = text;
}

/** Lists sessions once: each call is in the audit log, so the page does not repeat it. */
async function listSessions() {
  const written = find("operator").value;
  if (written) sessionStorage.setItem(SESSIONS_TOKEN, written);
  find("operator").value = "";
  const token = sessionStorage.getItem(SESSIONS_TOKEN);
  if (!token) return forgetSessions("Enter the token.");
  const headers = { Authorization: `Bearer ${token}` };
  const user = find("user").value;
  const get = async (resource, options) => {
    const response = await fetch(`/admin/v1/${resource}?${new URLSearchParams(options)}`, { headers, cache: "no-store" });
    if (response.ok) return response.json();
    throw new Error(response.status === 401 ? "Wrong token of session administration." : `Status ${response.status}.`);
  };
  try {
    const slowest = await get("sessions", { limit: "10", user, order: "slowest" });
    const sessions = await get("sessions", { limit: "100", user });
    const items = await get("items", {});
    showTables(find("listed"), [PRODUCT.slowest(slowest), PRODUCT.items(items), PRODUCT.sessions(sessions)]);
    find("forget").hidden = false;
    find("denied").textContent = "";
  } catch (error) {
    if (error.message.startsWith("Wrong")) return forgetSessions(error.message);
    find("denied").textContent = error instanceof TypeError ? "No response." : error.message;
  }
}

/** Lists the clients of a product without sessions, when asked to. */
async function listClients() {
  const token = sessionStorage.getItem("weir-admin-token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  try {
    const response = await fetch(PRODUCT.clients.path, { headers, cache: "no-store" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    showTables(find("listed-clients"), PRODUCT.clients.tables(await response.json()));
    find("failed").textContent = "";
  } catch {
    find("failed").textContent = "No response.";
  }
}

/** Moves the time under the pointer with the keyboard, by a 30th of the period. */
function step(event) {
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  if (event.key === "Escape") return point(null);
  if (!(event.key in steps) || page.drawnTo === undefined) return;
  event.preventDefault();
  const period = page.minutes * 60000;
  const at = (page.at ?? page.drawnTo) + (steps[event.key] * period) / 30;
  point(Math.min(Math.max(at, page.drawnTo - period), page.drawnTo));
}

function start() {
  if (!page.timer) page.timer = setInterval(ask, 2000);
  ask();
}

find("token").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("weir-admin-token", find("secret").value);
  find("secret").value = "";
  start();
});
find("list").addEventListener("submit", (event) => {
  event.preventDefault();
  listSessions();
});
find("list-clients").addEventListener("click", listClients);
find("charts").addEventListener("keydown", step);
find("forget").addEventListener("click", () => forgetSessions(""));
find("pause").addEventListener("click", (event) => {
  page.paused = !page.paused;
  event.currentTarget.setAttribute("aria-pressed", String(page.paused));
  show();
});
for (const button of document.querySelectorAll("[data-minutes]")) {
  button.addEventListener("click", () => {
    page.minutes = Number(button.dataset.minutes);
    for (const other of document.querySelectorAll("[data-minutes]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    draw();
  });
}
addEventListener("resize", () => requestAnimationFrame(draw));
document.addEventListener("visibilitychange", ask);
document.title = PRODUCT.title;
find("title").textContent = PRODUCT.title;
for (const [path, text] of PRODUCT.links) {
  const link = document.createElement("a");
  link.href = path;
  link.textContent = text;
  find("links").append(link);
  find("links").hidden = false;
}
start();
