// An unmodified Lightstreamer client in a page of a real browser, with the protocol of the Node driver
// (docs/conformance.md), whose SDK code runs in the page. This process serves the page, so the gateway
// has another origin. WEIR_BROWSER is the DevTools endpoint of a running Chromium.
'use strict';

const fs = require('fs');
const http = require('http');
const path = require('path');
const readline = require('readline');
const { newPage, describe, fail } = require('./devtools');

const PAGE = '<!doctype html><title>conformance</title><script src="/sdk.js"></script><script src="/driver.js"></script>';
const SDK = path.join(process.env.NODE_PATH, 'lightstreamer-client-web/lightstreamer.min.js');
const FILES = {
  '/': ['text/html', PAGE],
  '/sdk.js': ['text/javascript', fs.readFileSync(SDK)],
  '/driver.js': ['text/javascript', fs.readFileSync(path.join(__dirname, '../node/driver.js'))],
};

/** Serves the page and returns its address. */
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

/** Opens the page and returns a function that evaluates an expression in it. */
async function open(url) {
  const page = await newPage({ hidden: true });
  page.on('Runtime.bindingCalled', ({ name, payload }) => {
    (name === 'weirPrint' ? process.stdout : process.stderr).write(payload + '\n');
  });
  page.on('Runtime.exceptionThrown', ({ exceptionDetails }) => fail(describe(exceptionDetails)));
  // Errors of the browser, such as blocked requests to another origin, are reported only here.
  page.on('Log.entryAdded', ({ entry }) => process.stderr.write(`browser: ${entry.text} ${entry.url ?? ''}\n`));
  for (const name of ['weirPrint', 'weirLog']) await page.send('Runtime.addBinding', { name });
  await page.navigate(url);
  return page.evaluate;
}

async function main() {
  const evaluate = await open(await serve());
  let hasCookie = false;

  async function start(config) {
    if (config.cookie) {
      hasCookie = true;
      await evaluate(`document.cookie = ${JSON.stringify(config.cookie)}`);
    }
    await evaluate(`globalThis.command = drive(
      globalThis, ${JSON.stringify(config)}, (line) => weirPrint(JSON.stringify(line)), weirLog); undefined`);
  }

  async function handle(line) {
    const { cmd, config } = JSON.parse(line);
    // Other clients must not have the cookie.
    if (cmd === 'close' && hasCookie) process.exit(0);
    if (cmd === 'open') await start(config);
    else await evaluate(`command(${line}); undefined`);
  }

  await start(JSON.parse(process.argv[2]));
  const commands = readline.createInterface({ input: process.stdin });
  let handled = Promise.resolve();
  commands.on('line', (line) => {
    handled = handled.then(() => handle(line)).catch(fail);
  });
  commands.on('close', () => process.exit(0));
}

main().catch(fail);
