// An unmodified Lightstreamer client for Node, controlled by a JSON argument and JSON lines on stdin.
// Prints its events as JSON lines. Protocol: docs/conformance.md. The debug log goes to stderr.
// `drive` contains only SDK code and also runs in a page (conformance/web). The process serves several
// clients, one after the other.
'use strict';

/**
 * Starts a client with `config` and returns its command handler. `output` receives its events, `log` the
 * SDK's log lines.
 */
function drive({ LightstreamerClient, Subscription }, config, output, log) {
  let closed = false;
  const print = (line) => {
    if (!closed) output(line);
  };
  // Wall clock in microseconds, in the resolution of the monotonic clock.
  const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
  const detail = config.details ? print : () => {};

  if (config.debug) {
    const write = (level, category) => (line) => log(`${new Date().toISOString()} ${level} ${category} ${line}`);
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
  const option = (name, value) => client.connectionOptions[`set${name}`](value);
  if (config.transport) option('ForcedTransport', config.transport);
  if (config.keepalive_ms) option('KeepaliveInterval', config.keepalive_ms);
  for (const [name, value] of Object.entries(config.options ?? {})) option(name, value);
  if (config.user) client.connectionDetails.setUser(config.user);
  if (config.password) client.connectionDetails.setPassword(config.password);
  client.addListener({
    onStatusChange: (status) => print({ event: 'status', status }),
    onServerError: (code, message) => print({ event: 'server_error', code, message }),
    onPropertyChange: (name) => {
      if (name !== 'realMaxBandwidth') return;
      const value = client.connectionOptions.getRealMaxBandwidth();
      detail({ event: 'real_max_bandwidth', value: value === null ? null : String(value) });
    },
  });

  function subscribe(wanted, sub) {
    const subscription = new Subscription(wanted.mode, wanted.items, wanted.fields);
    subscription.setDataAdapter(wanted.data_adapter);
    subscription.setRequestedSnapshot(wanted.snapshot ?? null);
    if (wanted.max_frequency) subscription.setRequestedMaxFrequency(wanted.max_frequency);
    if (wanted.buffer) subscription.setRequestedBufferSize(wanted.buffer);
    if (wanted.second_level) {
      subscription.setCommandSecondLevelFields(wanted.second_level.fields);
      subscription.setCommandSecondLevelDataAdapter(wanted.second_level.data_adapter);
    }
    subscription.addListener({
      onSubscription: () => print({ event: 'subscribed', sub }),
      onUnsubscription: () => print({ event: 'unsubscribed', sub }),
      onSubscriptionError: (code, message) => print({ event: 'subscription_error', sub, code, message }),
      onItemLostUpdates: (item, pos, n) => print({ event: 'lost', sub, item, pos, n }),
      onEndOfSnapshot: (item, pos) => detail({ event: 'end_of_snapshot', sub, item, pos }),
      onClearSnapshot: (item, pos) => detail({ event: 'clear_snapshot', sub, item, pos }),
      onRealMaxFrequency: (value) => {
        detail({ event: 'real_max_frequency', sub, value: value === null ? null : String(value) });
      },
      onItemUpdate: (update) => {
        const at_us = nowUs();
        const values = {};
        const changed = [];
        update.forEachField((name, _pos, value) => { values[name] = value; });
        update.forEachChangedField((name) => changed.push(name));
        const line = {
          event: 'update', sub, at_us, item: update.getItemName(), pos: update.getItemPos(),
          values, changed, snapshot: update.isSnapshot(),
        };
        if (config.details) {
          // Old releases do not support patches.
          const patched = (name) => (update.getValueAsJSONPatchIfAvailable?.(name) ?? null) !== null;
          line.patched = wanted.fields.filter(patched);
        }
        print(line);
      },
    });
    client.subscribe(subscription);
    return subscription;
  }

  function message({ text, sequence, listens }) {
    const report = (outcome) => (_text, code, message) => {
      const more = outcome === 'denied' ? { code, message } : {};
      print({ event: 'message', text, outcome, ...more });
    };
    const listener = {
      onAbort: report('aborted'), onDeny: report('denied'), onDiscarded: report('discarded'),
      onError: report('error'), onProcessed: report('processed'),
    };
    client.sendMessage(text, sequence ?? undefined, undefined, listens ? listener : undefined);
  }

  // Subscribed before the connection: the SDK then sends them in one batch.
  const subscriptions = config.subscriptions.map(subscribe);
  client.connect();

  return (command) => {
    const { cmd, sub, subscription, name, value } = command;
    if (cmd === 'subscribe') subscriptions.push(subscribe(subscription, subscriptions.length));
    else if (cmd === 'unsubscribe') client.unsubscribe(subscriptions[sub ?? 0]);
    else if (cmd === 'frequency') subscriptions[sub ?? 0].setRequestedMaxFrequency(value);
    else if (cmd === 'option') option(name, value);
    else if (cmd === 'password') client.connectionDetails.setPassword(value);
    else if (cmd === 'message') message(command);
    else if (cmd === 'disconnect') client.disconnect();
    else if (cmd === 'close') {
      print({ event: 'closed' });
      closed = true;
      client.disconnect();
    }
    else throw new Error(`unknown command ${cmd}`);
  };
}

if (typeof process !== 'undefined') {
  const sdk = require('lightstreamer-client-node');
  let hasCookie = false;
  const start = (config) => {
    if (config.cookie) {
      hasCookie = true;
      sdk.LightstreamerClient.addCookies(config.server, [config.cookie]);
    }
    const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');
    return drive(sdk, config, print, (line) => process.stderr.write(line + '\n'));
  };
  let command = start(JSON.parse(process.argv[2]));
  const commands = require('readline').createInterface({ input: process.stdin });
  commands.on('line', (line) => {
    const { cmd, config, ...more } = JSON.parse(line);
    // Other clients must not have the cookie.
    if (cmd === 'close' && hasCookie) process.exit(0);
    if (cmd === 'open') command = start(config);
    else command({ cmd, ...more });
  });
  commands.on('close', () => process.exit(0));
}
