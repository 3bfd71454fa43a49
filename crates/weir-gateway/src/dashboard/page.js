// Requests samples, stores those of the last hour, displays them.
"use strict";

/** Samples by column. */
class History {
  constructor() {
    this.clear([]);
    this.gapMs = 2000;
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
const TRANSPORTS = [
  ["sessions.ws_streaming", "WebSocket"],
  ["sessions.http_streaming", "HTTP streaming"],
  ["sessions.ws_polling", "WebSocket polling"],
  ["sessions.http_polling", "HTTP polling"],
  ["sessions.unbound", "unbound"],
];

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

function chartList(history) {
  const has = ([column]) => history.column(column) !== undefined;
  const each = (prefix, label) => history.below(prefix).map((column) => [column, label(column.slice(prefix.length))]);
  const count = Format.count;
  const list = [
    { title: "Sessions by transport", format: count, least: 4, series: [...TRANSPORTS, ["connections", "connections"]] },
    { title: "Subscriptions and items", format: count, least: 4, series: [["subscriptions", "subscriptions"], ["items", "items"]] },
    { title: "Updates and records", format: Format.perSecond, least: 4, series: [["updates", "updates out"], ["records", "records in"]] },
    { title: "Bandwidth", format: Format.bytesPerSecond, base: 1024, least: 1024, series: [["bytes_out", "to clients"], ["bytes_in", "from clients"], ["record_bytes", "from Kafka"]] },
    { title: "Latency from record to send", format: Format.milliseconds, least: 4, peak: true, series: [["latency_p50", "p50"], ["latency_p99", "p99"], ["latency_max", "max"]] },
    { title: "Kafka lag", format: count, least: 4, peak: true, series: each("lag.", (name) => name) },
    { title: "Conflated and dropped updates", format: Format.perSecond, least: 4, series: [["conflated", "conflated"], ["dropped", "dropped"], ["lost", "lost (OV)"], ["unchanged", "unchanged"]] },
    { title: "Slow clients", format: count, least: 4, peak: true, series: [["lagging", "lagging"], ["slow_ended", "sessions ended/s"], ["blocked_writes", "blocked writes/s"]] },
    { title: "CPU usage by thread", format: Format.cores, least: 0.1, series: each("cpu.", (name) => name) },
    { title: "CPU utilization by core", format: Format.percent, least: 1, series: each("core.", (name) => `core ${name}`) },
    { title: "Memory", format: Format.bytes, base: 1024, least: 1048576, series: [["resident", "resident"], ["anonymous", "anonymous"]] },
    { title: "New sessions and handshakes", format: Format.perSecond, least: 4, series: [["created", "sessions"], ["refused", "sessions refused"], ["handshakes", "TLS handshakes"], ["limited", "limit hits"]] },
  ];
  return list.map((one) => ({ ...one, series: one.series.filter(has) })).filter((one) => one.series.length > 0);
}

const TILES = [
  ["Sessions", (now) => [Format.count(now("sessions")), Format.some(now("connections"), "connection")]],
  ["Subscriptions", (now) => [Format.count(now("subscriptions")), Format.some(now("items"), "item")]],
  ["Updates out", (now) => [Format.perSecond(now("updates")), `${Format.perSecond(now("records"))} records in`]],
  ["Bandwidth out", (now) => [Format.bytesPerSecond(now("bytes_out")), `${Format.bytesPerSecond(now("bytes_in"))} in`]],
  ["Latency p50", (now) => [Format.milliseconds(now("latency_p50")), `p99: ${Format.milliseconds(now("latency_p99"))}`]],
  ["Kafka lag", (now) => [Format.count(sum("lag.")), `${Format.perSecond(now("records_failed"))} failed`]],
  ["Slow clients", (now) => [Format.count(now("lagging")), `${Format.perSecond(now("conflated"))} conflated`]],
  ["CPU", (now) => [Format.some(sum("cpu."), "core"), Format.bytes(now("resident"))]],
];

function sum(prefix) {
  const columns = page.history.below(prefix);
  return columns.reduce((total, column) => total + (page.history.valueAt(column, null) || 0), 0);
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
  // Shortly after the start, less than the selected period is available.
  const begin = Math.min(history.times[0], to - 60000);
  const from = Math.max(to - page.minutes * 60000, begin);
  for (const chart of charts) chart.draw(history, from, to, page.at);
}

function showTiles() {
  const now = (column) => page.history.valueAt(column, null);
  const tiles = TILES.map(([label, text]) => {
    const tile = html("div", "tile");
    const [value, more] = text(now);
    html("p", "label", tile, label);
    html("p", "value", tile, value);
    html("p", "more", tile, more);
    return tile;
  });
  find("tiles").replaceChildren(...tiles);
}

function showTables(answer) {
  const connections = answer.connections.map((connection) => {
    const row = html("tr");
    html("td", "", row, connection.name);
    const state = connection.enabled ? (connection.ready ? "ready" : "not ready") : "disabled";
    html("td", state === "ready" ? "good" : state === "disabled" ? "zero" : "bad", row, state);
    html("td", "number", row, Format.count(page.history.valueAt(`lag.${connection.name}`, null)));
    html("td", "", row, connection.error || "");
    return row;
  });
  find("connections").replaceChildren(...connections);
  const limits = answer.limits.filter(({ hits }) => hits > 0).map(({ limit, hits }) => {
    const row = html("tr");
    html("td", "", row, limit);
    html("td", "number", row, String(hits));
    return row;
  });
  if (limits.length === 0) {
    const row = html("tr");
    html("td", "zero", row, `none of ${answer.limits.length}`);
    html("td", "number zero", row, "0");
    limits.push(row);
  }
  find("limits").replaceChildren(...limits);
}

function showStatus(kind, text) {
  const status = find("status");
  status.className = `pill ${kind}`;
  if (status.textContent !== text) status.textContent = text;
}

function showState(answer) {
  const waiting = answer.connections.filter((one) => one.enabled && !one.ready);
  if (answer.draining) showStatus("warn", "shutting down");
  else if (waiting.length > 0) showStatus("bad", "not ready");
  else showStatus("good", "ready");
  const up = Format.duration(answer.now_unix_ms - answer.started_unix_ms);
  const parts = [answer.clients, `adapter set ${answer.adapter_set}`, Format.some(answer.shards, "event loop"), `Weir ${answer.version}`, `up ${up}`];
  const ends = answer.certificate_ends_unix_s;
  if (ends) parts.push(`certificate until ${new Date(ends * 1000).toISOString().slice(0, 10)}`);
  find("identity").textContent = parts.join(" · ");
}

function take(answer) {
  const columns = answer.columns.join("\n");
  if (page.started !== answer.started_unix_ms || page.history.columns.join("\n") !== columns) {
    page.history.clear(answer.columns);
    page.started = answer.started_unix_ms;
    buildCharts();
  }
  page.next = answer.next;
  page.history.gapMs = answer.period_ms;
  page.history.add(answer.rows, answer.started_unix_ms, HOUR_MS);
  page.newest = answer;
  find("main").hidden = false;
  find("token").hidden = true;
  show();
}

function show() {
  const answer = page.newest;
  if (!answer) return;
  showState(answer);
  if (page.paused) return;
  page.drawnTo = answer.now_unix_ms;
  showTiles();
  showTables(answer);
  draw();
}

function askForToken(wrong) {
  find("main").hidden = true;
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
    const answer = await fetch(`/dashboard.json?after=${known}`, { headers, cache: "no-store" });
    if (answer.status === 401) {
      sessionStorage.removeItem("weir-admin-token");
      clearInterval(page.timer);
      page.timer = null;
      askForToken(token !== null);
    } else if (answer.ok) {
      const samples = await answer.json();
      // After a restart of the gateway, sample numbers start again.
      if (page.started !== null && samples.started_unix_ms !== page.started && known > 0) page.started = null;
      else take(samples);
    } else {
      throw new Error(`status ${answer.status}`);
    }
  } catch {
    const since = page.newest ? ` since ${Format.clock(page.newest.now_unix_ms, true)}` : "";
    showStatus("bad", `no response${since}`);
  }
  page.requesting = false;
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
start();
