// Prints the newest record of some keys of a Kafka topic as it changes.
// Usage: node live.js [SERVER [KEY...]]
'use strict';

const { LightstreamerClient, Subscription } = require('lightstreamer-client-node');

const [server = 'http://localhost:8080', ...given] = process.argv.slice(2);
const keys = given.length > 0 ? given : ['Apple', 'Banana', 'Orange', 'Grape', 'Kiwi'];

// The names of the adapter set, the data adapter, the items and the fields are those of ../adapters.xml.
const client = new LightstreamerClient(server, 'KafkaConnector');
client.addListener({
  onStatusChange: (status) => {
    console.error(status);
    if (status === 'DISCONNECTED:WILL-RETRY') {
      console.error(`no gateway answers at ${server}, trying again`);
    }
  },
  onServerError: (code, message) => console.error(`refused: ${code} ${message}`),
});

const items = keys.map((key) => `ltest-[key=${key}]`);
// MERGE: what a record holds replaces what the one before held; a client that lags gets the newest.
const subscription = new Subscription('MERGE', items, ['key', 'value', 'partition', 'offset']);
subscription.setDataAdapter('QuickStart');
subscription.addListener({
  onSubscriptionError: (code, message) => console.error(`not subscribed: ${code} ${message}`),
  onItemUpdate: (update) => {
    const at = `${update.getValue('partition')}/${update.getValue('offset')}`;
    const value = update.getValue('value') ?? '(null)';
    console.log(`${update.getItemName()}  ${at}  ${value.slice(0, 60)}`);
  },
});
client.subscribe(subscription);
client.connect();
