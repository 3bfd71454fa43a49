// Titles, tiles, charts and tables of the proxy's dashboard.
"use strict";

/** Clients in the list, those for which the most waits first. */
const CLIENTS_MAX = 100;

const PRODUCT = {
  title: "Weir proxy",
  links: [],
  waiting: ({ clusters }) => clusters.some((one) => !one.ready),
  facts: (response) => [Format.some(response.clusters.length, "virtual cluster"), Format.some(response.event_loops, "event loop")],
  charts: () => [
    { title: "Connections", format: Format.count, least: 4, series: [["connections", "clients"], ["broker_connections", "brokers"]] },
    { title: "Requests and responses", format: Format.perSecond, least: 4, series: [["requests", "requests"], ["responses", "responses"], ["rewritten", "addresses rewritten"]] },
    { title: "Bandwidth", format: Format.bytesPerSecond, base: 1024, least: 1024, series: [["bytes_in", "from clients"], ["bytes_out", "from brokers"], ["spliced", "of these spliced"]] },
    { title: "Filtered records", format: Format.perSecond, least: 4, series: [["filter_records", "records read"], ["filter_rebuilt", "batches rebuilt"], ["filter_undecodable", "not decodable"]] },
    { title: "Rejected and withheld partitions", format: Format.perSecond, least: 4, peak: true, series: [["filter_rejected", "rejected"], ["filter_withheld", "withheld"], ["filter_cut", "cut"], ["filter_limited", "limit reached"]] },
    { title: "Frames waiting", format: Format.count, least: 4, peak: true, series: [["filter_waiting", "for a filter thread"], ["memory_waiting", "for memory"], ["memory_waits", "new for memory/s"]] },
    { title: "Buffered frames", format: Format.bytes, base: 1024, least: 1048576, peak: true, series: [["buffered", "buffered"], ["claimed", "memory claimed"]] },
    { title: "Broker failures", format: Format.perSecond, least: 4, peak: true, series: [["connect_failures", "not connected"], ["silent_broker", "no response"], ["broker_errors", "invalid responses"]] },
    { title: "Client errors and slow peers", format: Format.perSecond, least: 4, peak: true, series: [["client_errors", "invalid requests"], ["rejected", "refused"], ["tls_failures", "TLS failures"], ["timeouts", "timeouts"], ["blocked_writes", "blocked writes"]] },
  ],
  tiles: [
    ["Connections", ({ now }) => [Format.count(now("connections")), `${Format.perSecond(now("accepted"))} new`]],
    ["Requests", ({ now }) => [Format.perSecond(now("requests")), `${Format.perSecond(now("responses"))} responses`]],
    ["From clients", ({ now }) => [Format.bytesPerSecond(now("bytes_in")), `${Format.bytesPerSecond(now("bytes_out"))} from brokers`]],
    ["Filtered records", ({ now }) => [Format.perSecond(now("filter_records")), Format.some(now("cpu.filter"), "core")]],
    ["Rejected", ({ now }) => [Format.perSecond(now("filter_rejected")), `${Format.perSecond(now("filter_withheld"))} withheld`, above(now("filter_rejected"), 0.01, Infinity)]],
    ["Buffered", ({ now }) => [Format.bytes(now("buffered")), `${Format.some(now("memory_waiting"), "frame")} waiting`, above(now("memory_waiting"), 1, 100)]],
    ["Broker failures", ({ now }) => [Format.perSecond(now("connect_failures") + now("silent_broker")), `${Format.perSecond(now("broker_errors"))} invalid`, above(now("connect_failures") + now("silent_broker") + now("broker_errors"), 0.01, 5)]],
  ],
  clients: {
    path: "/connections",
    tables: ({ connections }) => {
      const waits = (one) => one.buffered_bytes * 1000 + one.in_flight;
      const ordered = [...connections].sort((one, other) => waits(other) - waits(one) || other.request_bytes + other.response_bytes - one.request_bytes - one.response_bytes);
      const shown = ordered.slice(0, CLIENTS_MAX);
      return [{
        id: "client-rows",
        title: connections.length > shown.length ? `Slowest clients (${shown.length} of ${Format.count(connections.length)})` : `Slowest clients (${shown.length})`,
        head: [["Client", ""], ["Software", ""], ["Principal", ""], ["Cluster", ""], ["Broker", ""], ["State", ""], ["In flight", "number"], ["Buffered", "number"], ["Sent", "number"], ["Received", "number"], ["Age", "number"]],
        rows: shown.map((one) => [
          one.client, one.software || "", one.principal || "", one.cluster, one.broker || "", one.state, String(one.in_flight),
          Format.bytes(one.buffered_bytes), Format.bytes(one.request_bytes), Format.bytes(one.response_bytes), Format.duration(one.age_ms),
        ]),
      }];
    },
  },
  tables: (response) => [
    {
      id: "clusters",
      title: "Virtual clusters",
      head: [["Name", ""], ["Clients use", ""], ["State", ""], ["Error", ""]],
      rows: response.clusters.map((one) => [one.name, one.listen, one.ready ? ["ready", "good"] : ["not ready", "bad"], one.error || ""]),
    },
    {
      id: "brokers",
      title: "Brokers",
      head: [["Cluster", ""], ["Broker", ""], ["State", ""], ["Error", ""]],
      rows: response.brokers.map((one) => [one.cluster, one.broker, one.error ? ["no response", "bad"] : ["responds", "good"], one.error || ""]),
    },
  ],
};
