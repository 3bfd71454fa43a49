// Sends client messages with an unmodified Lightstreamer client and prints their outcomes, one per
// line. The argument is the address of the gateway.
'use strict';

const { LightstreamerClient } = require('lightstreamer-client-node');

const client = new LightstreamerClient(process.argv[2], 'KafkaConnector');
const messages = [];
for (let number = 1; number <= 50; number += 1) messages.push([`order ${number}`, 'orders']);
messages.push(['unordered'], ['uncovered', 'other'], [`long ${'x'.repeat(200)}`, 'orders_2']);

let open = messages.length;
const print = (outcome, text) => {
  console.log(outcome, text.startsWith('long') ? 'long' : text);
  open -= 1;
  if (open > 0) return;
  client.disconnect();
  process.exit(0);
};
const listener = {
  onProcessed: (text) => print('processed', text),
  onDeny: (text, code) => print(`denied ${code}`, text),
  onDiscarded: (text) => print('discarded', text),
  onError: (text) => print('error', text),
  onAbort: (text) => print('aborted', text),
};
client.connect();
for (const [text, sequence] of messages) client.sendMessage(text, sequence, 5000, listener);
setTimeout(() => process.exit(1), 60000);
