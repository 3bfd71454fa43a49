// Any page in a real browser, for tests of pages without an SDK client. Reads commands as JSON lines and
// responds to each with one line, {"answer": value} or {"error": text}. Before that, it prints
// {"request": url} for each request of the page and {"complaint": text} for each script error and
// blocked request. WEIR_BROWSER is the DevTools endpoint of a running Chromium.
'use strict';

const fs = require('fs');
const readline = require('readline');
const { newPage, describe, fail } = require('./devtools');

const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');

const COMMANDS = {
  open: (page, { url }) => page.navigate(url),
  evaluate: (page, { expression }) => page.evaluate(expression),
  /** Sets the window size and the color scheme, light or dark. */
  async view(page, { width, height, scheme }) {
    const phone = width < 600;
    await page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: phone ? 2 : 1, mobile: phone });
    await page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  },
  /** Returns a screenshot of the whole page as PNG. */
  async picture(page, { file }) {
    const { data } = await page.send('Page.captureScreenshot', { captureBeyondViewport: true, optimizeForSpeed: true });
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
  },
};

async function main() {
  const page = await newPage();
  await page.send('Network.enable');
  page.on('Network.requestWillBeSent', ({ request }) => print({ request: request.url }));
  page.on('Runtime.exceptionThrown', ({ exceptionDetails }) => print({ complaint: describe(exceptionDetails).message }));
  page.on('Log.entryAdded', ({ entry }) => {
    if (['error', 'warning'].includes(entry.level)) print({ complaint: `${entry.source}: ${entry.text} ${entry.url ?? ''}` });
  });
  page.on('Runtime.consoleAPICalled', ({ type, args }) => {
    if (['error', 'assert'].includes(type)) print({ complaint: args.map((one) => one.value ?? one.description).join(' ') });
  });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      print({ answer: (await COMMANDS[command.cmd](page, command)) ?? null });
    } catch (error) {
      print({ error: error.message });
    }
  }
  process.exit(0);
}

main().catch(fail);
