// Plain WebSocket server with the package ws: clients send their key and get its records.
import { follow, need } from "./kafka.mjs";

const [{ WebSocketServer }] = need("ws");
const [bootstrap, topic, port] = process.argv.slice(2);
const clients = new Map();
await follow(bootstrap, topic, (key, value) => {
  for (const client of clients.get(key) ?? []) client.send(value);
});
const server = new WebSocketServer({ host: "127.0.0.1", port: Number(port) });
server.on("connection", (client) => {
  client.once("message", (message) => {
    const key = String(message);
    if (!clients.has(key)) clients.set(key, new Set());
    clients.get(key).add(client);
    client.on("close", () => clients.get(key).delete(client));
    client.send('{"state":"subscribed"}');
  });
});
