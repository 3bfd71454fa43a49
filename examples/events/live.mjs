// Prints the newest record of some keys of a Kafka topic as it changes.
//
// Usage: node live.mjs [--socket] [SERVER [KEY...]]

import { follow } from "./weir-events.js";

const [first, ...rest] = process.argv.slice(2);
const socket = first === "--socket";
const [url = "http://localhost:8080", ...named] = socket ? rest : process.argv.slice(2);
const keys = named.length > 0 ? named : ["Apple", "Banana", "Orange", "Grape", "Kiwi"];

follow({
  url,
  socket,
  items: keys.map((key) => `ltest-[key=${key}]`),
  fields: ["partition", "offset", "value"],
  onStatus: (status, detail = "") => {
    const isAbsent = status === "waiting" && detail === "fetch failed";
    console.error(isAbsent ? `no gateway answers at ${url}, trying again` : `${status} ${detail}`);
  },
  onValues: (item, { partition, offset, value }) => {
    console.log(`${item}  ${partition}/${offset}  ${(value ?? "(null)").slice(0, 60)}`);
  },
});
