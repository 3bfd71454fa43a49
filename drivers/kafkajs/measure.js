// Protocol lines, values, keys and measurements.
'use strict';

const fs = require('node:fs');

const PRIMER = -1;
const PRIMER_VALUE = Buffer.from([0]);

class Refused extends Error {}

function refuse(why) {
  throw new Refused(why);
}

// A command: its fields by name, and its deadline.
class Command {
  constructor(fields) {
    this.fields = fields;
    const timeout = typeof fields.timeout_ms === 'number' ? fields.timeout_ms : 60_000;
    // Four fifths of the timeout, because an error is better than being killed.
    this.deadline = performance.now() + timeout * 0.8;
  }

  get(name) {
    const value = this.fields[name];
    if (value === undefined || value === null) refuse(`the command lacks "${name}"`);
    return value;
  }

  text(name) {
    return String(this.get(name));
  }

  // Returns the content of the file with encryption and login, if there is one.
  clientFile() {
    const path = this.fields.client_file;
    return path === undefined ? undefined : JSON.parse(fs.readFileSync(path, 'utf8'));
  }

  number(name) {
    const value = this.get(name);
    if (!Number.isInteger(value) || value < 0 || value > 2 ** 53) refuse(`"${name}" is no whole number from 0 to 2^53`);
    return value;
  }

  rate() {
    const value = this.get('rate');
    if (typeof value !== 'number' || !(value >= 0)) refuse('"rate" is no number from 0');
    return value;
  }

  flag(name) {
    return this.fields[name] === true;
  }

  // Milliseconds until the deadline, 0 after it.
  left() {
    return Math.max(0, this.deadline - performance.now());
  }

  late() {
    return this.left() === 0;
  }

  // Returns the result of the promise, or an error at the deadline.
  async within(promise, why) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Refused(why())), this.left());
    });
    try {
      return await Promise.race([promise, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

function say(line) {
  process.stdout.write(JSON.stringify(line) + '\n');
}

// Whole nanoseconds since the start of the process.
function now() {
  return Math.round(performance.now() * 1e6);
}

// CPU time of the whole process in microseconds.
function cpu() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

// Start mark: the clock is read last.
function begin() {
  const used = cpu();
  return { at: now(), cpu: used };
}

// End mark: the clock is read first.
function end() {
  const at = now();
  return { at, cpu: cpu() };
}

// The output of SplitMix64, little endian.
function makeValue(length, seed) {
  const words = new BigUint64Array(Math.ceil(length / 8));
  let state = BigInt(seed);
  for (let i = 0; i < words.length; i++) {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let word = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n);
    word = BigInt.asUintN(64, (word ^ (word >> 27n)) * 0x94d049bb133111ebn);
    words[i] = word ^ (word >> 31n);
  }
  const value = Buffer.alloc(words.length * 8);
  words.forEach((word, i) => value.writeBigUInt64LE(word, i * 8));
  return value.subarray(0, length);
}

// A whole number below 2^53 in size, big endian and signed.
function writeKey(buffer, at, number) {
  buffer.writeInt32BE(Math.floor(number / 2 ** 32), at);
  buffer.writeUInt32BE(number - Math.floor(number / 2 ** 32) * 2 ** 32, at + 4);
}

function makeKey(number) {
  const key = Buffer.allocUnsafe(8);
  writeKey(key, 0, number);
  return key;
}

// The keys 0, 1, 2, ...
function makeKeys(count) {
  const all = Buffer.alloc(count * 8);
  return Array.from({ length: count }, (_, i) => {
    writeKey(all, i * 8, i);
    return all.subarray(i * 8, i * 8 + 8);
  });
}

// Returns the number of a key; a key without a number gives a value that matches none.
function keyNumber(key) {
  return key && key.length === 8 ? key.readInt32BE(0) * 2 ** 32 + key.readUInt32BE(4) : NaN;
}

// A distribution of microseconds: exact below 1,000, three significant decimal digits above.
class Distribution {
  constructor() {
    this.counts = new Map();
    this.count = 0;
    this.sum = 0;
    this.least = Infinity;
    this.most = 0;
  }

  record(nanos) {
    const value = Math.max(0, Math.floor(nanos / 1000));
    const place = rounded(value);
    this.counts.set(place, (this.counts.get(place) || 0) + 1);
    this.count += 1;
    this.sum += value;
    this.least = Math.min(this.least, value);
    this.most = Math.max(this.most, value);
  }

  toJSON() {
    const pairs = [...this.counts].sort(([a], [b]) => a - b);
    return { count: this.count, sum_us: this.sum, min_us: this.count ? this.least : 0, max_us: this.most, pairs };
  }
}

// Half a unit rounds up.
function rounded(value) {
  let unit = 1;
  while (value / unit >= 1000) unit *= 10;
  return Math.floor((value + unit / 2) / unit) * unit;
}

function stats() {
  const { rss, heapUsed } = process.memoryUsage();
  let threads = null;
  try {
    const found = /^Threads:\s*(\d+)/m.exec(fs.readFileSync('/proc/self/status', 'utf8'));
    if (found) threads = Number(found[1]);
  } catch {
    // Not available on this system.
  }
  return { rss_kb: Math.round(rss / 1024), threads, heap_kb: Math.round(heapUsed / 1024) };
}

module.exports = {
  Command, Distribution, PRIMER, PRIMER_VALUE, Refused,
  begin, cpu, end, keyNumber, makeKey, makeKeys, makeValue, now, refuse, say, stats,
};
