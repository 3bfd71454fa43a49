// uWebSockets.js: clients send their key and get its records, by the server's own publish.
import { follow, need } from "./kafka.mjs";

const [uws] = need("uWebSockets.js");
const [bootstrap, topic, port] = process.argv.slice(2);
const app = uws.App().ws("/*", {
  message: (client, message) => {
    client.subscribe(Buffer.from(message).toString());
    client.send('{"state":"subscribed"}');
  },
});
await follow(bootstrap, topic, (key, value) => app.publish(key, value));
app.listen("127.0.0.1", Number(port), (socket) => socket || process.exit(1));
