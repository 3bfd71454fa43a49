// Readings of a topic from its start, always in a new group.
'use strict';

const { PRIMER, begin, end, keyNumber, makeValue, now, refuse } = require('./measure');
const { giveUp } = require('./produce');

// A consumer that reads the topic from its start and forwards every batch.
class Reader {
  constructor(settings, topic) {
    this.settings = settings;
    this.topic = topic;
    this.consumer = settings.consumer();
    this.crashed = new Promise((_, reject) => {
      this.consumer.on(this.consumer.events.CRASH, ({ payload }) => reject(payload.error));
    });
    // Waiting for it is optional.
    this.crashed.catch(() => {});
  }

  // Returns after the assignment of the partition.
  async start(take, options = { autoCommit: false }) {
    const { consumer, topic } = this;
    const joined = new Promise((resolve) => {
      consumer.on(consumer.events.GROUP_JOIN, () => {
        if (!this.joinedAt) this.joinedAt = now();
        resolve();
      });
    });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({ ...options, eachBatch: async ({ batch }) => take(batch.messages) });
    await Promise.race([joined, this.crashed]);
  }

  async stop() {
    await giveUp(this.consumer, 3000);
  }
}

class Consuming {
  constructor(settings, command, warm = false) {
    const via = warm ? 'group' : command.text('via');
    if (via !== 'group') refuse(`no via "${via}" in this library`);
    this.settings = settings;
    this.command = command;
    this.topic = command.text('topic');
    this.length = command.number('len');
    this.count = command.number('count');
    this.commit = !warm && command.flag('commit');
    this.value = !warm && command.flag('verify') ? makeValue(this.length, command.number('seed')) : null;
    this.got = 0;
    this.bytes = 0;
    this.bad = 0;
  }

  static async warmUp(settings, command) {
    const reading = new Consuming(settings, command, true);
    await reading.read();
    return { consume_cpu_us_per_record: (reading.s3.cpu - reading.s0.cpu) / Math.max(1, reading.count) };
  }

  async run() {
    await this.read();
    const { s0, s2, s3 } = this;
    const marks = { s0: s0.at, s1: this.s1, s2: s2.at, s3: s3.at };
    if (this.commit) marks.s4 = this.s4;
    const used = { cpu_us: s3.cpu - s0.cpu, drain_cpu_us: s3.cpu - s2.cpu };
    return { marks, ...used, got: this.got, bytes: this.bytes, bad: this.bad };
  }

  async read() {
    const reader = new Reader(this.settings, this.topic);
    try {
      await this.command.within(this.drain(reader), () => `only ${this.got} of ${this.count} records came in time`);
    } finally {
      await reader.stop();
    }
  }

  async drain(reader) {
    const done = new Promise((resolve) => {
      this.done = resolve;
    });
    this.s0 = begin();
    await reader.start((messages) => this.take(messages), this.settings.ofRuns);
    this.s1 = reader.joinedAt;
    if (this.count === 0) this.s2 = this.s3 = end();
    else await Promise.race([done, reader.crashed]);
    await this.finish();
    if (!this.commit) return;
    const offset = String(BigInt(this.lastOffset) + 1n);
    await reader.consumer.commitOffsets([{ topic: this.topic, partition: 0, offset }]);
    this.s4 = now();
  }

  // Called when the last record was read, before the consumer is stopped.
  async finish() {}

  take(messages) {
    for (const { key, value, offset } of messages) {
      if (this.got === this.count) return;
      const number = keyNumber(key);
      if (number === PRIMER) continue;
      if (this.got === 0) this.s2 = end();
      this.check(number, key, value);
      this.got += 1;
      if (this.got === this.count) {
        this.s3 = end();
        this.lastOffset = offset;
        this.done();
      }
    }
  }

  check(number, key, value) {
    const size = value === null ? 0 : value.length;
    if (number !== this.got || size !== this.length || (this.value && !this.value.equals(value))) this.bad += 1;
    this.bytes += (key === null ? 0 : key.length) + size;
  }
}

module.exports = { Consuming, Reader };
