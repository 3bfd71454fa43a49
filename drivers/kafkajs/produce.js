// Bursts of records, and their producers.
'use strict';

const { PRIMER, PRIMER_VALUE, begin, end, makeKey, makeKeys, makeValue, now, refuse } = require('./measure');

// Maximum overhead of a record in a batch, in addition to its key and value.
const RECORD_BYTES = 30;

// Counts the delivery reports of one command. A report is the result of a call, so it covers all
// records of the call.
class Delivery {
  constructor(expected) {
    this.expected = expected;
    this.missing = expected;
    this.failed = 0;
    this.errors = [];
    this.last = end();
  }

  report(count, error) {
    if (error) {
      this.failed += count;
      const text = String(error.message || error);
      if (this.errors.length < 5 && !this.errors.includes(text)) this.errors.push(text);
    }
    this.missing -= count;
    if (this.missing === 0) this.last = end();
  }

  unfinished() {
    const why = this.errors.length ? `: ${this.errors[0]}` : '';
    return `only ${this.expected - this.missing} of ${this.expected} delivery reports came in time${why}`;
  }

  toJSON() {
    return { acked: this.expected - this.failed, failed: this.failed, errors: this.errors };
  }
}

// Sends records in batches, with one call at a time: with concurrent calls, later ones can overtake
// large ones, and the records change order.
class Sender {
  constructor(settings, producer, topic, command, delivery) {
    this.settings = settings;
    this.producer = producer;
    this.topic = topic;
    this.command = command;
    this.delivery = delivery;
    this.call = null;
  }

  // Number of records of this size per batch.
  batch(length) {
    return Math.max(1, Math.floor(this.settings.batchBytes / (length + 8 + RECORD_BYTES)));
  }

  // Waits until the last call has returned.
  async back() {
    while (this.call) await this.command.within(this.call, () => this.delivery.unfinished());
  }

  // One call; `delivered` is called when it has succeeded.
  send(messages, delivered) {
    const call = this.producer.send({ topic: this.topic, messages, ...this.settings.ofCalls }).then(
      () => {
        if (delivered) delivered();
        this.delivery.report(messages.length);
      },
      (error) => this.delivery.report(messages.length, error),
    );
    this.call = call.finally(() => {
      this.call = null;
    });
  }
}

// A burst: its records and measurements.
class Burst {
  constructor(settings, command) {
    this.settings = settings;
    this.command = command;
    this.topic = command.text('topic');
    this.perRecord = command.flag('per_record');
    this.value = makeValue(command.number('len'), command.number('seed'));
    this.keys = makeKeys(command.number('count'));
    this.delivery = new Delivery(this.keys.length);
    this.create = 0;
    this.sending = 0;
  }

  async run(producer) {
    const sender = new Sender(this.settings, producer, this.topic, this.command, this.delivery);
    const size = sender.batch(this.value.length);
    for (let at = 0; at < this.keys.length; at += size) {
      await sender.back();
      const began = now();
      const messages = this.keys.slice(at, at + size).map((key) => ({ key, value: this.value, partition: 0 }));
      const made = now();
      sender.send(messages);
      this.sending += now() - made;
      this.create += made - began;
    }
    this.t1 = now();
    await sender.back();
  }

  cpu() {
    return Math.max(0, this.delivery.last.cpu - this.t0.cpu);
  }

  answer() {
    const t2 = Math.max(this.t0.at, this.delivery.last.at);
    const answer = { marks: { t0: this.t0.at, t1: this.t1, t2 }, cpu_us: this.cpu(), ...this.delivery.toJSON() };
    if (!this.perRecord) return answer;
    return { ...answer, create_us: Math.round(this.create / 1000), send_us: Math.round(this.sending / 1000) };
  }
}

async function produce(settings, command) {
  const burst = new Burst(settings, command);
  const state = command.text('state');
  if (!['cold', 'metadata', 'warm'].includes(state)) refuse(`unknown state "${state}"`);
  await sendBurst(settings, burst, command, state);
  return burst.answer();
}

async function warmUp(settings, command) {
  const burst = new Burst(settings, command);
  await sendBurst(settings, burst, command, 'warm');
  if (burst.delivery.failed) refuse(`records of the warm-up failed: ${burst.delivery.errors[0]}`);
  return { produce_cpu_us_per_record: burst.cpu() / Math.max(1, burst.keys.length) };
}

async function sendBurst(settings, burst, command, state) {
  burst.t0 = begin();
  await withProducer(settings, command, async (producer) => {
    if (state === 'metadata') await askMetadata(settings, producer, burst.topic, command);
    else if (state === 'warm') await warm(settings, producer, burst.topic, command);
    if (state !== 'cold') burst.t0 = begin();
    await burst.run(producer);
  });
}

// Calls `work` with a connected producer. No producer is reused across commands, not even a warm
// one:
// a connected client of this library wakes hundreds of times a second when idle, and one that knew
// a
// deleted topic cannot use a new one.
async function withProducer(settings, command, work) {
  const producer = settings.producer();
  try {
    await command.within(producer.connect(), () => 'the producer did not connect in time');
    return await work(producer);
  } finally {
    await giveUp(producer, 2000);
  }
}

// Prepares a producer of the state `warm`. A topic gets one primer only, as from a reused producer.
async function warm(settings, producer, topic, command) {
  if (settings.primed.has(topic)) {
    await askMetadata(settings, producer, topic, command);
  } else {
    await prime(settings, producer, topic, command);
    settings.primed.add(topic);
  }
}

// A call loads its topic's metadata, even without records.
async function askMetadata(settings, producer, topic, command) {
  const asked = producer.send({ topic, messages: [], ...settings.ofCalls });
  await command.within(asked, () => 'no metadata in time');
}

async function prime(settings, producer, topic, command) {
  const messages = [{ key: makeKey(PRIMER), value: PRIMER_VALUE, partition: 0 }];
  const sent = producer.send({ topic, messages, ...settings.ofCalls });
  await command.within(sent, () => 'the primer was not delivered in time');
}

// Disconnects a client, which may wait without end.
async function giveUp(client, timeoutMs) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([client.disconnect(), late]).catch((error) => console.error(`a client did not stop: ${error}`));
  clearTimeout(timer);
}

module.exports = { Delivery, Sender, giveUp, prime, produce, warm, warmUp, withProducer };
