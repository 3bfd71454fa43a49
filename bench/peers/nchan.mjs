// Publishes the records of a topic in nchan, until the server that started it ends.
import http from "node:http";
import { follow, need } from "./kafka.mjs";

need();
const [bootstrap, topic, port] = process.argv.slice(2);
const server = process.ppid;
setInterval(() => process.ppid === server || process.exit(), 500);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const publish = (key, value) =>
  new Promise((resolve, reject) => {
    const path = `/pub/${encodeURIComponent(key)}`;
    const options = { agent, host: "127.0.0.1", port, path, method: "POST" };
    const request = http.request(options, (response) => response.resume().on("end", resolve));
    request.on("error", reject).end(value);
  });
await follow(bootstrap, topic, publish);
