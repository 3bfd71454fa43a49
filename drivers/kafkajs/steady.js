// Produces at a constant rate, or consumes for some time, and reports the results of each second.
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');

const { Reader } = require('./consume');
const { Distribution, PRIMER, begin, cpu, keyNumber, makeKey, makeValue, now, refuse, say } = require('./measure');
const { pace } = require('./pace');
const { Delivery, Sender, warm, withProducer } = require('./produce');

// Totals and the current second.
class Seconds {
  constructor(command) {
    this.id = command.fields.id;
    this.seconds = command.number('seconds');
    this.reported = 0;
    this.records = 0;
    this.bytes = 0;
    this.all = { records: 0, bytes: 0 };
    this.begin = begin();
    this.reportedCpu = this.begin.cpu;
    this.schedule();
  }

  // Reports all seconds except the last one, which ends with the command.
  schedule() {
    if (this.reported >= this.seconds - 1) return;
    const due = this.begin.at + (this.reported + 1) * 1e9;
    this.timer = setTimeout(() => {
      this.report();
      this.schedule();
    }, Math.max(0, Math.ceil((due - now()) / 1e6)));
  }

  count(records, bytes) {
    this.records += records;
    this.bytes += bytes;
  }

  report() {
    const used = cpu();
    const { records, bytes } = this;
    say({ id: this.id, event: 'second', second: this.reported, records, bytes, cpu_us: used - this.reportedCpu });
    this.all.records += records;
    this.all.bytes += bytes;
    this.reportedCpu = used;
    this.records = 0;
    this.bytes = 0;
    this.reported += 1;
  }

  // Waits until the time is over.
  async rest() {
    const left = this.begin.at + this.seconds * 1e9 - now();
    if (left > 0) await sleep(Math.ceil(left / 1e6));
  }

  abandon() {
    clearTimeout(this.timer);
  }

  finish(failed) {
    this.abandon();
    while (this.reported < this.seconds) this.report();
    return { ...this.all, failed, cpu_us: this.reportedCpu - this.begin.cpu };
  }
}

async function produce(settings, command) {
  const topic = command.text('topic');
  if (command.rate() === 0) refuse('"rate" is not above 0');
  const value = makeValue(command.number('len'), command.number('seed'));
  return withProducer(settings, command, async (producer) => {
    await warm(settings, producer, topic, command);
    const seconds = new Seconds(command);
    try {
      return await hold(settings, command, producer, topic, value, seconds);
    } finally {
      seconds.abandon();
    }
  });
}

async function hold(settings, command, producer, topic, value, seconds) {
  const rate = command.rate();
  const count = Math.floor(rate * seconds.seconds);
  const delivery = new Delivery(count);
  const [latency, pacing] = [new Distribution(), new Distribution()];
  const sender = new Sender(settings, producer, topic, command, delivery);
  const size = sender.batch(value.length);
  let ordinal = 0;
  const paced = { begin: seconds.begin.at, rate, count, pacing, size, command, ready: () => sender.back() };
  await pace(paced, (dues) => {
    const messages = dues.map(() => ({ key: makeKey(ordinal++), value, partition: 0 }));
    sender.send(messages, () => {
      const at = now();
      for (const due of dues) latency.record(at - due);
    });
    seconds.count(dues.length, dues.length * (8 + value.length));
  });
  await sender.back();
  await seconds.rest();
  return { ...seconds.finish(delivery.failed), latency, pacing };
}

async function consume(settings, command) {
  const reader = new Reader(settings, command.text('topic'));
  let seconds = null;
  // Records received before the start belong to the first second.
  let [early, earlyBytes] = [0, 0];
  try {
    const started = reader.start((messages) => {
      for (const { key, value } of messages) {
        if (keyNumber(key) === PRIMER) continue;
        const bytes = (key === null ? 0 : key.length) + (value === null ? 0 : value.length);
        if (seconds) {
          seconds.count(1, bytes);
        } else {
          early += 1;
          earlyBytes += bytes;
        }
      }
    });
    await command.within(started, () => 'the consumer did not join its group in time');
    seconds = new Seconds(command);
    seconds.count(early, earlyBytes);
    await Promise.race([seconds.rest(), reader.crashed]);
    return seconds.finish(0);
  } finally {
    if (seconds) seconds.abandon();
    await reader.stop();
  }
}

async function steady(settings, command) {
  const role = command.text('role');
  if (role === 'produce') return produce(settings, command);
  if (role === 'consume') return consume(settings, command);
  return refuse(`unknown role "${role}"`);
}

module.exports = { steady };
