// Any page in a real browser, for tests of pages without an SDK client. Reads commands as JSON lines and
// responds to each with one line, {"answer": value} or {"error": text}. Before that, it prints
// {"request": url} for each request of the page and {"complaint": text} for each script error, warning
// and blocked request. WEIR_BROWSER is the DevTools endpoint of a running Chromium, WEIR_AXE the
// script of axe-core.
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
  /** Presses and releases a key. */
  async press(page, { key, shift }) {
    const [code, text] = KEYS[key];
    const event = { key, code: key === ' ' ? 'Space' : key, windowsVirtualKeyCode: code, modifiers: shift ? 8 : 0 };
    await page.send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', text, ...event });
    await page.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  },
  /** Types a text into the element that has the keyboard. */
  type: (page, { text }) => page.send('Input.insertText', { text }).then(() => null),
  /** Returns what axe-core finds: rules, their impact, and the elements that violate them. */
  async audit(page) {
    if (await page.evaluate('typeof axe !== "object"')) {
      await page.evaluate(`${fs.readFileSync(process.env.WEIR_AXE, 'utf8')};0`);
    }
    return page.settled(`axe.run({ preload: false, resultTypes: ['violations'] }).then(({ violations, passes }) => ({
      passes: passes.length,
      violations: violations.map(({ id, impact, nodes }) => ({
        id, impact, nodes: nodes.slice(0, 5).map(({ html, failureSummary }) => html.slice(0, 200) + ' ' + failureSummary),
      })),
    }))`);
  },
  /** Returns a screenshot of the whole page as PNG. */
  async picture(page, { file }) {
    // A new size is painted in the second frame.
    await page.settled('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))');
    const { data } = await page.send('Page.captureScreenshot', { captureBeyondViewport: true, optimizeForSpeed: true });
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
  },
};

/** Keys as the browser names them; the text is what they type. */
const KEYS = { Tab: [9], Enter: [13, '\r'], ' ': [32, ' '], Escape: [27], ArrowLeft: [37], ArrowRight: [39], ArrowDown: [40] };

async function main() {
  const page = await newPage({ hidden: false });
  // Of several pages, only one would have the keyboard.
  await page.send('Emulation.setFocusEmulationEnabled', { enabled: true });
  await page.send('Network.enable');
  page.on('Network.requestWillBeSent', ({ request }) => print({ request: request.url }));
  page.on('Runtime.exceptionThrown', ({ exceptionDetails }) => print({ complaint: describe(exceptionDetails).message }));
  page.on('Log.entryAdded', ({ entry }) => {
    if (['error', 'warning'].includes(entry.level)) print({ complaint: `${entry.source}: ${entry.text} ${entry.url ?? ''}` });
  });
  page.on('Runtime.consoleAPICalled', ({ type, args }) => {
    if (['error', 'assert', 'warning'].includes(type)) print({ complaint: args.map((one) => one.value ?? one.description).join(' ') });
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
