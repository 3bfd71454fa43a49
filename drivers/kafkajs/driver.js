// Driver of kafkajs. It executes one JSON command per line of standard input and writes one
// response
// per line to standard output. The protocol is in docs/drivers.md.
'use strict';

const readline = require('node:readline');
const { setFlagsFromString } = require('node:v8');
const { runInNewContext } = require('node:vm');

const { version } = require('kafkajs/package.json');
const { Consuming } = require('./consume');
const { Copying } = require('./copy');
const { Command, refuse, say, stats } = require('./measure');
const { produce, warmUp } = require('./produce');
const { roundtrip } = require('./roundtrip');
const { Settings } = require('./settings');
const { steady } = require('./steady');

// The library reads in groups only.
const CAPABILITIES = [
  'produce.cold', 'produce.metadata', 'produce.warm', 'consume.group', 'copy.group',
  'roundtrip.burst', 'roundtrip.open', 'steady.produce', 'steady.consume',
];

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

let settings = null;

function configured() {
  if (!settings) refuse('configure comes first');
  return settings;
}

const operations = {
  hello(command) {
    if (command.number('protocol') !== 1) refuse('this driver speaks protocol 1');
    return {
      protocol: 1,
      library: 'kafkajs',
      library_version: version,
      binding: '',
      runtime: `Node.js ${process.version}, V8 ${process.versions.v8}, flags ${process.execArgv.join(' ') || 'none'}`,
      capabilities: CAPABILITIES,
    };
  },

  async configure(command) {
    const client = command.clientFile();
    settings = new Settings(command.text('bootstrap'), client, command.get('settings'));
    return { ...settings.echo(), client_file: client !== undefined };
  },

  async warmup(command) {
    const produced = await warmUp(configured(), command);
    return { ...produced, ...(await Consuming.warmUp(settings, command)) };
  },

  async produce(command) {
    return produce(configured(), command);
  },

  async consume(command) {
    return new Consuming(configured(), command).run();
  },

  async copy(command) {
    return new Copying(configured(), command).run();
  },

  async roundtrip(command) {
    return roundtrip(configured(), command);
  },

  async steady(command) {
    return steady(configured(), command);
  },

  gc() {
    collect();
  },

  stats,

  // No client outlives its command.
  bye() {},
};

// Responds to one command. Returns false after the last one.
async function obey(line) {
  let id = null;
  let op = null;
  let answer;
  try {
    const fields = parsed(line);
    id = fields.id === undefined ? null : fields.id;
    op = fields.op;
    if (!Object.hasOwn(operations, String(op))) refuse(`unknown op ${JSON.stringify(op)}`);
    answer = { id, ok: true, ...(await operations[op](new Command(fields))) };
  } catch (error) {
    answer = { id, ok: false, error: String(error.message || error).split('\n', 1)[0] };
  }
  say(answer);
  return op !== 'bye';
}

function parsed(line) {
  let fields;
  try {
    fields = JSON.parse(line);
  } catch (error) {
    refuse(`no JSON: ${error.message}`);
  }
  if (fields === null || typeof fields !== 'object' || Array.isArray(fields)) refuse('a command is an object');
  return fields;
}

// A promise of the library that is no longer awaited, for example of an abandoned consumer.
process.on('unhandledRejection', (error) => console.error('given up:', error));

const input = readline.createInterface({ input: process.stdin, crlfDelay: Infinity });
let last = Promise.resolve(true);
input.on('line', (line) => {
  if (line.trim() === '') return;
  last = last.then((more) => (more ? obey(line) : false));
  last.then((more) => more || process.exit(0));
});
// After the end of the input the process exits within 1.5 s.
input.on('close', () => {
  setTimeout(() => process.exit(0), 1500);
  last.then(() => process.exit(0));
});
