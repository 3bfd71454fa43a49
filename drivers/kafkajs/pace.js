// Calls at absolute times.
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');

const { now, refuse } = require('./measure');

// Record i is due at `begin` + i / `rate`. `call` gets the due times of up to `size` due records:
// none
// is skipped, and a late one is sent at once. `pacing` records the delay of each. Timers of Node.js
// have a resolution of 1 ms.
async function pace({ begin, rate, count, pacing, size, command, ready }, call) {
  const dueOf = (i) => begin + Math.floor((i * 1e9) / rate);
  for (let next = 0; next < count; ) {
    const wait = dueOf(next) - now();
    if (wait > 0) {
      await sleep(Math.ceil(wait / 1e6));
      continue;
    }
    if (command.late()) refuse('not all records could be sent in time');
    await ready();
    const dues = [];
    const at = now();
    while (next < count && dues.length < size && dueOf(next) <= at) {
      dues.push(dueOf(next));
      pacing.record(at - dueOf(next));
      next += 1;
    }
    call(dues);
  }
}

module.exports = { pace };
