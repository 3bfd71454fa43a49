// Copies of a topic: what is read from its start is sent to another topic.
'use strict';

const { Consuming } = require('./consume');
const { PRIMER, keyNumber, now } = require('./measure');
const { Delivery, Sender, warm, withProducer } = require('./produce');

class Copying extends Consuming {
  constructor(settings, command) {
    super(settings, command);
    this.to = command.text('to');
    this.delivery = new Delivery(this.count);
    this.sent = Promise.resolve();
  }

  async run() {
    const { settings, command } = this;
    await withProducer(settings, command, async (producer) => {
      await warm(settings, producer, this.to, command);
      this.sender = new Sender(settings, producer, this.to, command, this.delivery);
      await this.read();
    });
    const { s0, s2, t1, delivery } = this;
    const marks = { s0: s0.at, s1: this.s1, s2: s2.at, t1, t2: Math.max(s2.at, delivery.last.at) };
    const used = {
      cpu_us: Math.max(0, delivery.last.cpu - s0.cpu),
      copy_cpu_us: Math.max(0, delivery.last.cpu - s2.cpu),
    };
    return { marks, ...used, got: this.got, bytes: this.bytes, bad: this.bad, ...delivery.toJSON() };
  }

  take(messages) {
    const before = this.got;
    super.take(messages);
    const records = messages.filter(({ key }) => keyNumber(key) !== PRIMER).slice(0, this.got - before);
    this.sent = this.forward(records);
    return this.sent;
  }

  async forward(records) {
    const size = this.sender.batch(this.length);
    for (let at = 0; at < records.length; at += size) {
      await this.sender.back();
      this.sender.send(records.slice(at, at + size).map(({ key, value }) => ({ key, value, partition: 0 })));
    }
  }

  async finish() {
    await this.sent;
    this.t1 = now();
    await this.sender.back();
  }
}

module.exports = { Copying };
