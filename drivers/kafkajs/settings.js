// The settings of all clients created from now on.
'use strict';

const { randomUUID } = require('node:crypto');
const { readFileSync } = require('node:fs');

const { CompressionTypes, Kafka, Partitioners } = require('kafkajs');
const { refuse } = require('./measure');

// Behaviour of the library without such a setting.
const INSTEAD = {
  // A call sends its records at once, in one batch for a partition: this program makes the batches.
  linger_ms: 0,
  // No number of records closes a batch, as 0 requests.
  batch_records: 0,
  // The library has a limit, but records stay in order only with one call at a time.
  max_in_flight: 1,
  // The library has no queue.
  queue_bytes: null,
  queue_records: null,
  max_request_bytes: null,
  // Sockets have the operating system's defaults.
  send_buffer_bytes: 0,
  receive_buffer_bytes: 0,
  // The library reads the checksum and does not compare it.
  check_crcs: false,
};
// Settings that the library has.
const KNOWN = [
  'acks', 'retries', 'idempotence', 'compression', 'fetch_min_bytes', 'fetch_wait_ms',
  'fetch_partition_bytes', 'auto_commit', 'auto_commit_ms',
];
const BATCH_BYTES = 1_000_000;

const BOOLEANS = ['idempotence', 'check_crcs', 'auto_commit'];

// Rejects values of another type, which the library would use as they are.
function check(asked) {
  for (const [name, value] of Object.entries(asked)) {
    const type = name === 'compression' ? 'string' : BOOLEANS.includes(name) ? 'boolean' : 'number';
    const known = KNOWN.includes(name) || name === 'batch_bytes';
    if (known && typeof value !== type) refuse(`${name} cannot be ${JSON.stringify(value)}`);
  }
}

class Settings {
  constructor(bootstrap, client, asked) {
    check(asked);
    this.asked = asked;
    // Topics to which a producer with these settings has sent a primer.
    this.primed = new Set();
    this.batchBytes = asked.batch_bytes || BATCH_BYTES;
    this.kafka = new Kafka({
      clientId: 'weir',
      brokers: bootstrap.split(','),
      ...security(client),
      // Its default logger would use standard output.
      logCreator: () => ({ namespace, log }) => process.stderr.write(`${namespace}: ${log.message} ${log.error || ''}\n`),
      logLevel: 1,
    });
    this.ofCalls = given({ acks: asked.acks, compression: codec(asked.compression) });
  }

  get retry() {
    return this.asked.retries === undefined ? {} : { retry: { retries: this.asked.retries } };
  }

  producer() {
    return this.kafka.producer({
      allowAutoTopicCreation: false,
      createPartitioner: Partitioners.DefaultPartitioner,
      ...given({ idempotent: this.asked.idempotence }),
      ...this.retry,
    });
  }

  // A consumer in a new group; the library has no others.
  consumer() {
    return this.kafka.consumer({
      groupId: `weir-${randomUUID()}`,
      allowAutoTopicCreation: false,
      ...given({
        minBytes: this.asked.fetch_min_bytes,
        maxWaitTimeInMs: this.asked.fetch_wait_ms,
        maxBytesPerPartition: this.asked.fetch_partition_bytes,
      }),
    });
  }

  // Commit settings of a consumer in a group.
  get ofRuns() {
    return given({ autoCommit: this.asked.auto_commit, autoCommitInterval: this.asked.auto_commit_ms });
  }

  echo() {
    const names = Object.keys(this.asked);
    const unsupported = names.filter((name) => !KNOWN.includes(name));
    const effective = Object.fromEntries(names.map((name) => [name, this.effective(name)]));
    return { effective, unsupported };
  }

  effective(name) {
    if (KNOWN.includes(name)) return this.asked[name];
    if (name === 'batch_bytes') return this.batchBytes;
    return name in INSTEAD ? INSTEAD[name] : null;
  }
}

// Returns encryption and login of a client file with librdkafka's names.
function security(client) {
  const given = client ? client.properties : {};
  const [mechanism, protocol] = [given['sasl.mechanism'], given['security.protocol'] || ''];
  const login = { username: given['sasl.username'], password: given['sasl.password'] };
  const logins = {
    PLAIN: { mechanism: 'plain', ...login },
    'SCRAM-SHA-256': { mechanism: 'scram-sha-256', ...login },
    'SCRAM-SHA-512': { mechanism: 'scram-sha-512', ...login },
    OAUTHBEARER: {
      mechanism: 'oauthbearer',
      oauthBearerProvider: async () => ({ value: readFileSync(client.token_file, 'utf8') }),
    },
  };
  if (mechanism !== undefined && !(mechanism in logins)) refuse(`no login with "${mechanism}" in this driver`);
  const ssl = {
    ca: given['ssl.ca.pem'],
    cert: given['ssl.certificate.pem'],
    key: given['ssl.key.pem'],
    ...(given['ssl.endpoint.identification.algorithm'] === 'none' ? { checkServerIdentity: () => undefined } : {}),
  };
  return {
    ...(protocol.toLowerCase().endsWith('ssl') ? { ssl } : {}),
    ...(mechanism === undefined ? {} : { sasl: logins[mechanism] }),
  };
}

// The library has two codecs; others are separate packages.
function codec(name) {
  const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };
  if (name !== undefined && !(name in codecs)) refuse(`no codec "${name}" in this library`);
  return codecs[name];
}

// Returns the fields that have a value.
function given(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

module.exports = { Settings };
