// Titles, tiles, charts and tables of the gateway's dashboard.
"use strict";

const TRANSPORTS = [
  ["sessions.ws_streaming", "WebSocket"],
  ["sessions.http_streaming", "HTTP streaming"],
  ["sessions.ws_polling", "WebSocket polling"],
  ["sessions.http_polling", "HTTP polling"],
  ["sessions.sse", "server-sent events"],
  ["sessions.ws_json", "JSON over WebSocket"],
  ["sessions.unbound", "unbound"],
];

// State of the remote Metadata Adapter; nothing if none is configured.
const remoteAdapter = (adapter) => {
  if (adapter === null) {
    return [];
  }
  const state = adapter.connected ? `${Format.some(adapter.pending, "request")} pending` : "not connected";
  return [`remote adapter: ${state}`];
};

const SESSION_COLUMNS = [["Session", ""], ["User", ""], ["Issuer", ""], ["Address", ""], ["Transport", ""], ["Subscriptions", "number"], ["Queue", "number"], ["Age", "number"]];

const sessionRow = (one) => [
  one.session,
  one.user || [one.auth, "zero"],
  one.issuer || "",
  one.address || "",
  one.transport,
  String(one.subscriptions),
  [Format.bytes(one.queued_bytes), one.lagging ? "bad" : ""],
  Format.duration(one.age_s * 1000),
];

const PRODUCT = {
  title: "Weir gateway",
  links: [["/try", "Try items"]],
  waiting: ({ connections, adapter }) => connections.some((one) => one.enabled && !one.ready) || (adapter !== null && !adapter.connected),
  facts: (response) => [response.clients, `adapter set ${response.adapter_set}`, Format.some(response.shards, "event loop"), ...remoteAdapter(response.adapter)],
  charts: (each) => [
    { title: "Sessions by transport", format: Format.count, least: 4, series: [...TRANSPORTS, ["connections", "connections"]] },
    { title: "Subscriptions and items", format: Format.count, least: 4, series: [["subscriptions", "subscriptions"], ["items", "items"]] },
    { title: "Updates and records", format: Format.perSecond, least: 4, series: [["updates", "updates out"], ["records", "records in"]] },
    { title: "Bandwidth", format: Format.bytesPerSecond, base: 1024, least: 1024, series: [["bytes_out", "to clients"], ["bytes_in", "from clients"], ["record_bytes", "from Kafka"]] },
    { title: "Latency from record to send", format: Format.milliseconds, least: 4, peak: true, series: [["latency_p50", "p50"], ["latency_p99", "p99"], ["latency_max", "max"]] },
    { title: "Kafka lag", format: Format.count, least: 4, peak: true, series: each("lag.", (name) => name) },
    { title: "Conflated and dropped updates", format: Format.perSecond, least: 4, series: [["conflated", "conflated"], ["dropped", "dropped"], ["lost", "lost (OV)"], ["unchanged", "unchanged"]] },
    { title: "Slow clients", format: Format.count, least: 4, peak: true, series: [["lagging", "lagging"], ["slow_ended", "sessions ended/s"], ["blocked_writes", "blocked writes/s"]] },
    { title: "New sessions and handshakes", format: Format.perSecond, least: 4, series: [["created", "sessions"], ["refused", "sessions refused"], ["handshakes", "TLS handshakes"], ["limited", "limit hits"]] },
  ],
  tiles: [
    ["Sessions", ({ now }) => [Format.count(now("sessions")), Format.some(now("connections"), "connection")]],
    ["Subscriptions", ({ now }) => [Format.count(now("subscriptions")), Format.some(now("items"), "item")]],
    ["Updates out", ({ now }) => [Format.perSecond(now("updates")), `${Format.perSecond(now("records"))} records in`]],
    ["Bandwidth out", ({ now }) => [Format.bytesPerSecond(now("bytes_out")), `${Format.bytesPerSecond(now("bytes_in"))} in`]],
    ["Latency p50", ({ now }) => [Format.milliseconds(now("latency_p50")), `p99: ${Format.milliseconds(now("latency_p99"))}`, above(now("latency_p99"), 1000, 5000)]],
    ["Kafka lag", ({ now, sum }) => [Format.count(sum("lag.")), `${Format.perSecond(now("records_failed"))} failed`, above(sum("lag."), 10000, 100000) || above(now("records_failed"), 0.01, Infinity)]],
    ["Slow clients", ({ now }) => [Format.count(now("lagging")), `${Format.perSecond(now("conflated"))} conflated`, above(now("lagging") / Math.max(now("sessions"), 1), 0.05, 0.2)]],
  ],
  /** The table of the sessions whose clients have the most to take. */
  slowest: ({ sessions }) => {
    const slow = sessions.filter((one) => one.lagging || one.queued_bytes > 0);
    return {
      id: "slowest-rows",
      title: "Slowest clients",
      head: SESSION_COLUMNS,
      rows: slow.length > 0 ? slow.map(sessionRow) : [[["none", "zero"], ...SESSION_COLUMNS.slice(1).map(() => "")]],
    };
  },
  /** The table of a response of session administration. */
  sessions: ({ sessions, after }) => ({
    id: "session-rows",
    title: after ? `Sessions (first ${sessions.length})` : `Sessions (${sessions.length})`,
    head: SESSION_COLUMNS,
    rows: sessions.map(sessionRow),
  }),
  /** The table of the items with the most subscriptions. */
  items: ({ items, sessions, complete }) => ({
    id: "item-rows",
    title: complete ? "Top items" : `Top items of the first ${sessions} sessions`,
    head: [["Connection", ""], ["Item", ""], ["Subscriptions", "number"]],
    rows: items.map((one) => [one.connection, one.item, String(one.subscriptions)]),
  }),
  tables: (response, { now }) => {
    const limits = response.limits.filter(({ hits }) => hits > 0).map(({ limit, hits }) => [limit, String(hits)]);
    const none = [[`none of ${response.limits.length}`, "zero"], ["0", "zero"]];
    return [
      {
        id: "connections",
        title: "Kafka connections",
        head: [["Name", ""], ["State", ""], ["Lag", "number"], ["Last error", ""]],
        rows: response.connections.map((one) => {
          const state = one.enabled ? (one.ready ? ["ready", "good"] : ["not ready", "bad"]) : ["disabled", "zero"];
          return [one.name, state, Format.count(now(`lag.${one.name}`)), one.error || ""];
        }),
      },
      {
        id: "topics",
        title: "Top topics",
        head: [["Topic", ""], ["Connection", ""], ["Partitions", "number"], ["Read", "number"], ["Lag", "number"]],
        rows: response.topics.map((one) => [one.topic, one.connection, Format.count(one.partitions), Format.rate(one.offsets_per_s), Format.count(one.lag)]),
      },
      {
        id: "limits",
        title: "Limit hits since start",
        head: [["Limit", ""], ["Hits", "number"]],
        rows: limits.length > 0 ? limits : [none],
      },
    ];
  },
};
