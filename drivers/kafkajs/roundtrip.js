// A producer and a consumer of the same topic in one process.
'use strict';

const { Reader } = require('./consume');
const { Distribution, PRIMER, begin, end, keyNumber, makeKey, makeValue, now } = require('./measure');
const { pace } = require('./pace');
const { Delivery, Sender, prime, withProducer } = require('./produce');

class Roundtrip {
  constructor(settings, command) {
    this.settings = settings;
    this.command = command;
    this.topic = command.text('topic');
    this.count = command.number('count');
    this.rate = command.rate();
    this.value = makeValue(command.number('len'), command.number('seed'));
    this.delivery = new Delivery(this.count);
    this.latency = new Distribution();
    this.pacing = new Distribution();
    this.last = end();
    this.primed = new Promise((resolve) => {
      this.onPrimer = resolve;
    });
    this.received = new Promise((resolve) => {
      this.onLast = resolve;
    });
    if (this.count === 0) this.onLast();
  }

  take(messages) {
    for (const { key } of messages) {
      const number = keyNumber(key);
      if (number === PRIMER) {
        this.onPrimer();
        continue;
      }
      this.latency.record(now() - number);
      if (this.latency.count === this.count) {
        this.last = end();
        this.onLast();
      }
    }
  }

  async run(producer, reader) {
    const { command } = this;
    const until = (promise, why) => command.within(Promise.race([promise, reader.crashed]), () => why);
    await until(reader.start((messages) => this.take(messages)), 'the consumer did not join its group in time');
    await prime(this.settings, producer, this.topic, command);
    await until(this.primed, 'the consumer did not get the primer in time');
    const sender = new Sender(this.settings, producer, this.topic, command, this.delivery);
    const t0 = begin();
    if (this.rate > 0) await this.sendPaced(sender, t0.at);
    else await this.sendAll(sender);
    const t1 = now();
    await sender.back();
    await until(this.received, 'not all records came back in time');
    return this.answer(t0, t1);
  }

  message(instant) {
    return { key: makeKey(instant), value: this.value, partition: 0 };
  }

  async sendAll(sender) {
    const size = sender.batch(this.value.length);
    for (let at = 0; at < this.count; at += size) {
      await sender.back();
      const messages = [];
      for (let i = at; i < Math.min(at + size, this.count); i++) messages.push(this.message(now()));
      sender.send(messages);
    }
  }

  async sendPaced(sender, t0) {
    const { command, count, rate, pacing } = this;
    const size = sender.batch(this.value.length);
    await pace({ begin: t0, rate, count, pacing, size, command, ready: () => sender.back() }, (dues) => {
      sender.send(dues.map((due) => this.message(due)));
    });
  }

  answer(t0, t1) {
    const t2 = this.delivery.last;
    const r1 = this.last;
    const last = r1.at > t2.at ? r1 : t2;
    return {
      marks: { t0: t0.at, t1, t2: Math.max(t0.at, t2.at), r1: Math.max(t0.at, r1.at) },
      cpu_us: Math.max(0, last.cpu - t0.cpu),
      ...this.delivery.toJSON(),
      got: this.latency.count,
      latency: this.latency,
      pacing: this.pacing,
    };
  }
}

async function roundtrip(settings, command) {
  const work = new Roundtrip(settings, command);
  const reader = new Reader(settings, work.topic);
  try {
    return await withProducer(settings, command, (producer) => work.run(producer, reader));
  } finally {
    await reader.stop();
  }
}

module.exports = { roundtrip };
