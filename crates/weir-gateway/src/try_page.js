// Lists topics and items, subscribes as a client of the gateway, and shows values as they change.
// Text from the gateway is never inserted as markup.
"use strict";

const ITEMS_MAX = 20;
const find = (id) => document.getElementById(id);
const state = { facts: null, socket: null, items: new Map(), next: 1, connected: false };

function put(name, parent, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

function showStatus(kind, text) {
  find("status").className = `pill ${kind}`;
  find("status").textContent = text;
}

/** A titled area that the keyboard can scroll. */
function panel(parent, title) {
  const box = put("div", parent);
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", title);
  put("h2", box, title);
  return box;
}

function table(parent, titles) {
  const element = put("table", parent);
  const row = put("tr", put("thead", element));
  for (const title of titles) put("th", row, title).scope = "col";
  return put("tbody", element);
}

/** The name of an item, with a place for the value of each parameter. */
function example({ prefix, parameters }) {
  return parameters.length === 0 ? prefix : `${prefix}-[${parameters.map((name) => `${name}=`).join(",")}]`;
}

function list() {
  find("listed").replaceChildren();
  const chosen = find("connection").value;
  find("connection").replaceChildren();
  for (const one of state.facts.connections) {
    const option = put("option", find("connection"), one.name);
    option.value = one.name;
    option.disabled = !one.enabled;
    const readiness = one.ready ? "ready" : "not ready";
    const box = panel(find("listed"), `${one.name} (${one.enabled ? readiness : "disabled"})`);
    const rows = table(box, ["Kind", "Name"]);
    for (const topic of one.topics) {
      const row = put("tr", rows);
      put("td", row, "topic");
      put("td", row, topic);
    }
    for (const item of one.items) {
      const row = put("tr", rows);
      put("td", row, "item");
      const use = put("button", put("td", row), example(item));
      use.type = "button";
      use.disabled = !one.enabled;
      use.addEventListener("click", () => fill(one.name, example(item)));
    }
    const row = put("tr", rows);
    put("td", row, "fields");
    const more = one.fields.length > 0 ? ["any other"] : ["any"];
    put("td", row, [...one.fields, ...(one.is_any_field ? more : [])].join(", "));
  }
  const names = state.facts.connections.filter((one) => one.enabled).map((one) => one.name);
  if (names.length > 0) find("connection").value = names.includes(chosen) ? chosen : names[0];
  nameFields();
}

const chosenConnection = () => state.facts.connections.find((one) => one.name === find("connection").value);

/** Names all fields of the connection, to be shortened; those that are not known are typed. */
function nameFields() {
  find("fields").value = (chosenConnection()?.fields || []).join(" ");
}

/** Puts the cursor where the first parameter's value belongs. */
function fill(connection, item) {
  find("connection").value = connection;
  nameFields();
  find("item").value = item;
  find("item").focus();
  const at = item.indexOf("=") + 1 || item.length;
  find("item").setSelectionRange(at, at);
}

function encode(pairs) {
  return Object.entries(pairs).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

function subscribe(id, { connection, item, fields, mode }) {
  const pairs = {
    LS_reqId: id, LS_op: "add", LS_subId: id, LS_mode: mode, LS_group: item,
    LS_schema: fields.join(" "), LS_data_adapter: connection, LS_snapshot: "true",
  };
  state.socket.send(`control\r\n${encode(pairs)}`);
}

/** Values of an update, in the order of the fields (TLCP 2.5.0, chapter "Updates"). */
function apply({ cells, time }, payload) {
  let field = 0;
  for (const token of payload.split("|")) {
    const unchanged = /^\^(\d+)$/.exec(token);
    if (unchanged) {
      field += Number(unchanged[1]);
      continue;
    }
    const cell = cells[field];
    field += 1;
    if (token === "" || !cell) continue;
    cell.className = token === "#" ? "zero" : "";
    cell.textContent = token === "#" ? "null" : token === "$" ? "" : decodeURIComponent(token);
  }
  time.textContent = `updated at ${new Date().toLocaleTimeString()}`;
}

function onLine(line) {
  const [tag, ...rest] = line.split(",");
  const text = () => `${decodeURIComponent(rest.slice(tag === "REQERR" ? 2 : 1).join(","))} (code ${rest[tag === "REQERR" ? 1 : 0]})`;
  if (tag === "CONOK") {
    state.connected = true;
    showStatus("good", "connected");
    state.items.forEach((one, id) => subscribe(id, one));
  } else if (tag === "U") {
    const one = state.items.get(Number(rest[0]));
    if (one) apply(one, rest.slice(2).join(","));
  } else if (tag === "REQERR") {
    const one = state.items.get(Number(rest[0]));
    if (one) remove(Number(rest[0]));
    find("denied").textContent = `${one ? one.item : "request"}: ${text()}`;
  } else if (tag === "CONERR" || tag === "END") {
    find("denied").textContent = `The gateway ended the session: ${text()}`;
  } else if (tag === "LOOP") {
    state.socket.close();
  }
}

function connect() {
  const { port, tls_port: tlsPort, adapter_set: set } = state.facts;
  const useTls = tlsPort !== null && (location.protocol === "https:" || port === null);
  const base = useTls ? `wss://${location.hostname}:${tlsPort}` : `ws://${location.hostname}:${port}`;
  const socket = new WebSocket(`${base}/lightstreamer`, "TLCP-2.5.0.lightstreamer.com");
  state.socket = socket;
  const pairs = { LS_adapter_set: set, LS_cid: "mgQkwtwdysogQz2BJ4Ji kOj2Bg", LS_supported_diffs: "" };
  if (find("user").value) pairs.LS_user = find("user").value;
  if (find("password").value) pairs.LS_password = find("password").value;
  socket.onopen = () => socket.send(`create_session\r\n${encode(pairs)}`);
  socket.onmessage = (event) => event.data.split("\r\n").filter(Boolean).forEach(onLine);
  socket.onclose = () => {
    if (state.socket !== socket) return;
    state.socket = null;
    if (!state.connected && !find("denied").textContent) find("denied").textContent = `No gateway answers at ${base}, or it does not allow this page (allowed_origins).`;
    state.connected = false;
    showStatus("bad", "not connected");
  };
}

function remove(id) {
  const one = state.items.get(id);
  state.items.delete(id);
  one.box.remove();
}

function unsubscribe(id) {
  remove(id);
  if (state.connected) state.socket.send(`control\r\n${encode({ LS_reqId: state.next++, LS_op: "delete", LS_subId: id })}`);
}

function add() {
  const connection = chosenConnection();
  const item = find("item").value.trim();
  const fields = find("fields").value.trim().split(/[\s,]+/).filter(Boolean);
  find("denied").textContent = "";
  if (!connection || !item || fields.length === 0) return;
  if (state.items.size >= ITEMS_MAX) {
    find("denied").textContent = `At most ${ITEMS_MAX} items at once.`;
    return;
  }
  const id = state.next++;
  const box = panel(find("values"), item);
  const time = put("p", box, "no update yet");
  const rows = table(box, ["Field", "Value"]);
  const cells = fields.map((field) => {
    const row = put("tr", rows);
    put("td", row, field);
    return put("td", row, "");
  });
  const stop = put("button", box, "Unsubscribe");
  stop.type = "button";
  stop.setAttribute("aria-label", `Unsubscribe ${item}`);
  stop.addEventListener("click", () => unsubscribe(id));
  const one = { box, time, cells, item, connection: connection.name, fields, mode: connection.mode };
  state.items.set(id, one);
  // Another name or password needs another session.
  const identity = `${find("user").value}\n${find("password").value}`;
  if (state.socket && state.identity === identity) {
    if (state.connected) subscribe(id, one);
    return;
  }
  const before = state.socket;
  state.identity = identity;
  state.connected = false;
  connect();
  if (before) before.close();
}

async function ask() {
  const token = sessionStorage.getItem("weir-admin-token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  try {
    const response = await fetch("/try.json", { headers, cache: "no-store" });
    if (response.status === 401) {
      sessionStorage.removeItem("weir-admin-token");
      find("token").hidden = false;
      find("refused").textContent = token ? "Wrong admin token." : "";
      showStatus("warn", "token required");
      find("secret").focus();
      return;
    }
    if (!response.ok) throw new Error(`status ${response.status}`);
    state.facts = await response.json();
  } catch {
    showStatus("bad", "no response");
    return;
  }
  find("token").hidden = true;
  find("main").hidden = false;
  showStatus("warn", "choose an item");
  list();
}

find("token").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("weir-admin-token", find("secret").value);
  find("secret").value = "";
  ask();
});
find("connection").addEventListener("change", nameFields);
find("add").addEventListener("submit", (event) => {
  event.preventDefault();
  add();
});
ask();
