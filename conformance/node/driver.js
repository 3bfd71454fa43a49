// One unmodified Lightstreamer client for Node, told what to do by one JSON argument and by JSON lines on stdin;
// prints what it sees as JSON lines. The protocol is in docs/conformance.md. Its debug log goes to stderr.
'use strict';

const readline = require('readline');
const { LightstreamerClient, Subscription } = require('lightstreamer-client-node');
const config = JSON.parse(process.argv[2]);

// Wall clock in microseconds, in the resolution of the monotonic clock.
const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');

if (config.debug) {
  const write = (level, category) => (line) =>
    process.stderr.write(`${new Date().toISOString()} ${level} ${category} ${line}\n`);
  const on = () => true;
  LightstreamerClient.setLoggerProvider({
    getLogger: (category) => ({
      fatal: write('FATAL', category), isFatalEnabled: on,
      error: write('ERROR', category), isErrorEnabled: on,
      warn: write('WARN', category), isWarnEnabled: on,
      info: write('INFO', category), isInfoEnabled: on,
      debug: write('DEBUG', category), isDebugEnabled: on,
      trace: () => {}, isTraceEnabled: () => false,
    }),
  });
}

const client = new LightstreamerClient(config.server, config.adapter_set);
if (config.transport) client.connectionOptions.setForcedTransport(config.transport);
if (config.keepalive_ms) client.connectionOptions.setKeepaliveInterval(config.keepalive_ms);
client.addListener({
  onStatusChange: (status) => print({ event: 'status', status }),
  onServerError: (code, message) => print({ event: 'server_error', code, message }),
});

function subscribe(wanted, sub) {
  const subscription = new Subscription(wanted.mode, wanted.items, wanted.fields);
  subscription.setDataAdapter(wanted.data_adapter);
  subscription.setRequestedSnapshot(wanted.snapshot ?? null);
  subscription.addListener({
    onSubscription: () => print({ event: 'subscribed', sub }),
    onUnsubscription: () => print({ event: 'unsubscribed', sub }),
    onSubscriptionError: (code, message) => print({ event: 'subscription_error', sub, code, message }),
    onItemLostUpdates: (item, pos, n) => print({ event: 'lost', sub, item, pos, n }),
    onItemUpdate: (update) => {
      const at_us = nowUs();
      const values = {};
      const changed = [];
      update.forEachField((name, _pos, value) => { values[name] = value; });
      update.forEachChangedField((name) => changed.push(name));
      print({
        event: 'update', sub, at_us, item: update.getItemName(), pos: update.getItemPos(),
        values, changed, snapshot: update.isSnapshot(),
      });
    },
  });
  client.subscribe(subscription);
  return subscription;
}

// Subscribed before the connection: the SDK then sends them in one batch.
const subscriptions = config.subscriptions.map(subscribe);
client.connect();

const commands = readline.createInterface({ input: process.stdin });
commands.on('line', (line) => {
  const { cmd, sub, subscription } = JSON.parse(line);
  if (cmd === 'subscribe') subscriptions.push(subscribe(subscription, subscriptions.length));
  else if (cmd === 'unsubscribe') client.unsubscribe(subscriptions[sub ?? 0]);
  else if (cmd === 'disconnect') client.disconnect();
  else throw new Error(`unknown command ${cmd}`);
});
commands.on('close', () => process.exit(0));
