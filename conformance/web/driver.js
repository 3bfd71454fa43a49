// One unmodified Lightstreamer client in a page of a real browser, told what to do and telling what it sees as the driver
// for Node does (docs/conformance.md); its part about the SDK runs in the page. The page comes from this process, so the
// gateway is of another origin. WEIR_BROWSER names the DevTools endpoint of a running Chromium.
'use strict';

const fs = require('fs');
const http = require('http');
const path = require('path');
const readline = require('readline');
const WebSocket = require('ws');

const config = JSON.parse(process.argv[2]);
const PAGE = '<!doctype html><title>conformance</title><script src="/sdk.js"></script><script src="/driver.js"></script>';
const SDK = path.join(process.env.NODE_PATH, 'lightstreamer-client-web/lightstreamer.min.js');
const FILES = {
  '/': ['text/html', PAGE],
  '/sdk.js': ['text/javascript', fs.readFileSync(SDK)],
  '/driver.js': ['text/javascript', fs.readFileSync(path.join(__dirname, '../node/driver.js'))],
};

/** Serves the page; tells its address. */
function serve() {
  const server = http.createServer((request, response) => {
    const [type, body] = FILES[request.url] ?? [];
    if (!type) return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': `${type}; charset=utf-8` }).end(body);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}/`));
  });
}

/** A DevTools connection: `send` asks, `on` hears events by name. */
function devTools(url) {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  const waiting = new Map();
  const listeners = new Map();
  let last = 0;
  socket.on('message', (text) => {
    const { id, method, params, result, error } = JSON.parse(text);
    if (method) return listeners.get(method)?.(params);
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    return error ? reject(new Error(error.message)) : resolve(result);
  });
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('the browser has gone')));
  const send = (method, params, sessionId) => new Promise((resolve, reject) => {
    const id = ++last;
    waiting.set(id, { resolve, reject });
    socket.send(JSON.stringify({ id, method, params, sessionId }));
  });
  const on = (method, listener) => listeners.set(method, listener);
  return new Promise((resolve) => socket.on('open', () => resolve({ send, on })));
}

function fail(error) {
  process.stderr.write(`${error.stack ?? error}\n`);
  process.exit(1);
}

const describe = (details) => new Error(details.exception?.description ?? details.text);

/** Opens the page in a profile of its own; returns what runs an expression in it. */
async function open(browser, url) {
  const { browserContextId } = await browser.send('Target.createBrowserContext', { disposeOnDetach: true });
  const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank', browserContextId });
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId, flatten: true });
  const page = (method, params) => browser.send(method, params, sessionId);

  const loaded = new Promise((resolve) => browser.on('Page.loadEventFired', resolve));
  browser.on('Runtime.bindingCalled', ({ name, payload }) => {
    (name === 'weirPrint' ? process.stdout : process.stderr).write(payload + '\n');
  });
  browser.on('Runtime.exceptionThrown', ({ exceptionDetails }) => fail(describe(exceptionDetails)));
  browser.on('Inspector.targetCrashed', () => fail(new Error('the page has crashed')));
  // Refusals by the browser, such as those of another origin, are told nowhere else.
  browser.on('Log.entryAdded', ({ entry }) => process.stderr.write(`browser: ${entry.text} ${entry.url ?? ''}\n`));
  for (const domain of ['Page', 'Runtime', 'Log', 'Inspector']) await page(`${domain}.enable`, {});
  for (const name of ['weirPrint', 'weirLog']) await page('Runtime.addBinding', { name });
  await page('Page.navigate', { url });
  await loaded;
  return async (expression) => {
    const { exceptionDetails } = await page('Runtime.evaluate', { expression });
    if (exceptionDetails) fail(describe(exceptionDetails));
  };
}

async function main() {
  const browser = await devTools(process.env.WEIR_BROWSER);
  const evaluate = await open(browser, await serve());
  await evaluate(`globalThis.command = drive(
    globalThis, ${JSON.stringify(config)}, (line) => weirPrint(JSON.stringify(line)), weirLog)`);
  const commands = readline.createInterface({ input: process.stdin });
  commands.on('line', (line) => evaluate(`command(${line})`).catch(fail));
  commands.on('close', () => process.exit(0));
}

main().catch(fail);
