// One unmodified Lightstreamer client beside the simulated ones: prints what it sees as JSON lines.
// Arguments: server, adapter set, data adapter, item, fields (commas between).
'use strict';

const { LightstreamerClient, Subscription } = require('lightstreamer-client-node');
const [server, adapterSet, dataAdapter, item, fields] = process.argv.slice(2);

// Wall clock in microseconds, in the resolution of the monotonic clock.
const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');

const client = new LightstreamerClient(server, adapterSet);
client.addListener({
  onStatusChange: (status) => print({ kind: 'status', status }),
  onServerError: (code, message) => print({ kind: 'error', message: `${code}: ${message}` }),
});

const subscription = new Subscription('RAW', [item], fields.split(','));
subscription.setDataAdapter(dataAdapter);
subscription.setRequestedSnapshot(null);
subscription.addListener({
  onSubscription: () => print({ kind: 'subscribed' }),
  onSubscriptionError: (code, message) => print({ kind: 'error', message: `${code}: ${message}` }),
  onItemLostUpdates: (_name, _position, lost) => print({ kind: 'overflow', lost }),
  onItemUpdate: (update) => {
    const at_us = nowUs();
    print({ kind: 'update', at_us, key: update.getValue('key'), stamp: update.getValue('weir') });
  },
});

client.subscribe(subscription);
client.connect();
// The runner ends us by closing our input.
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
