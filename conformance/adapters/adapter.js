// Remote Metadata Adapter of the tests, with the unmodified SDK for Node.
//
// Arguments: host, port, user, password. adapter.py and Adapter.java decide the same. With ADAPTER_CA,
// a file with the authority of the gateway's certificate, the connection uses TLS.
'use strict';

const fs = require('fs');
const net = require('net');
const tls = require('tls');
const { MetadataProvider } = require('lightstreamer-adapter');

const [host, port, user, password] = process.argv.slice(2);
const { ADAPTER_CA } = process.env;
const stream = ADAPTER_CA === undefined
  ? net.createConnection(Number(port), host)
  : tls.connect({ host, port: Number(port), servername: 'localhost', ca: fs.readFileSync(ADAPTER_CA) });
const provider = new MetadataProvider(stream, {}, { user, password });

// Prints what the test waits for.
const log = (...words) => console.log(...words);

stream.on('error', error => log('error', error.message));
stream.on('close', () => process.exit(0));

provider.on('init', (request, response) => {
  log('init', request.parameters['app:region']);
  response.success();
});
const notifyUser = (request, response) => {
  switch (request.userName) {
    case 'bad':
      return response.error('no such user', 'access');
    case 'blocked':
      return response.error('quota', 'credits',
        { clientCode: -7, clientMessage: 'Daily limit, come back' });
    case 'slow':
      return setTimeout(() => response.success(128.5, true), 2000);
    default:
      return response.success(128.5, true);
  }
};
provider.on('notifyUser', notifyUser);
provider.on('notifyUserAuth', notifyUser);
// Open session of the user who may have only one.
let single = null;
provider.on('notifyNewSession', (request, response) => {
  if (request.userName === 'single') {
    const other = single;
    single = other === null ? request.sessionId : null;
    if (other !== null) {
      return response.error('one session only', 'conflictingSession',
        { clientCode: -9, clientMessage: 'Logged in elsewhere', conflictingSessionId: other });
    }
  }
  if (request.userName !== 'two') {
    return response.success();
  }
  return response.error('one session only', 'conflictingSession',
    { clientCode: -9, clientMessage: 'Logged in elsewhere', conflictingSessionId: 'Sold1' });
});
provider.on('getItems', (request, response) => {
  if (request.groupName === 'unknown') {
    return response.error('unknown list', 'items');
  }
  if (request.groupName === 'mine') {
    return response.success([`orders-[account=${request.userName}]`, 'quote-[symbol=é|+]']);
  }
  if (request.groupName === 'own') {
    return response.success([`ltest-[key=${request.userName}]`]);
  }
  return response.success(request.groupName.split(' '));
});
provider.on('getSchema', (request, response) => {
  if (request.schemaName === 'secret') {
    return response.error('unknown field', 'schema');
  }
  return response.success(request.schemaName.split(' '));
});
provider.on('getItemData', (request, response) => response.success(request.itemNames.map(() => ({
  distinctSnapLen: 20,
  minSourceFreq: 0,
  allowedModes: { raw: true, merge: true, distinct: false, command: false },
}))));
provider.on('getUserItemData', (request, response) => {
  response.success(request.itemNames.map(() => ({
    allowedBufferSize: 7,
    allowedMaxItemFreq: 2.5,
    allowedModes: { raw: false, merge: true, distinct: true, command: false },
  })));
});
provider.on('notifyNewTables', (request, response) => {
  if (request.tableInfos[0].groupName === 'full') {
    return response.error('too many', 'credits', { clientCode: -5, clientMessage: null });
  }
  return response.success();
});
provider.on('notifyTablesClose', (request, response) => {
  log('NTC', request.sessionId, request.tableInfos[0].winIndex);
  response.success();
});
provider.on('notifySessionClose', (request, response) => {
  log('NSC', request.sessionId);
  response.success();
});
provider.on('notifyUserMessage', (request, response) => {
  switch (request.userMessage) {
    case 'no':
      return response.error('refused', 'credits', { clientCode: -3, clientMessage: null });
    case '?':
      return response.error('bad', 'notification');
    default:
      return response.success();
  }
});
