// Screenshots of the pages of a running gateway: node scripts/pictures.js DIRECTORY PROFILE
// The modules of the conformance tests must be in NODE_PATH.
'use strict';

const { spawn } = require('child_process');
const fs = require('fs');
const path = require('path');

const ADMIN = 'http://127.0.0.1:8090';
const [directory, profile] = process.argv.slice(2);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Starts a browser and returns its DevTools endpoint. */
async function browser(profile) {
  const options = ['--headless', '--remote-debugging-port=0', '--no-sandbox', '--disable-gpu', '--hide-scrollbars'];
  const child = spawn(process.env.WEIR_CHROMIUM || 'chromium', [...options, `--user-data-dir=${profile}`, 'about:blank'], { stdio: 'ignore' });
  for (;;) {
    const file = path.join(profile, 'DevToolsActivePort');
    const [port, address] = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n') : [];
    if (address) return { child, endpoint: `ws://127.0.0.1:${port}${address}` };
    await pause(50);
  }
}

/** Shows an address in a window, does what a user would do, and saves what is shown. */
async function picture(newPage, name, url, [width, height], act = '') {
  const page = await newPage();
  await page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  await page.navigate(url);
  await pause(3000);
  if (act) await page.evaluate(act);
  await pause(4000);
  const { data } = await page.send('Page.captureScreenshot', { format: 'webp', quality: 82 });
  fs.writeFileSync(path.join(directory, `${name}.webp`), Buffer.from(data, 'base64'));
}

async function main() {
  const { child, endpoint } = await browser(profile);
  process.env.WEIR_BROWSER = endpoint;
  const { newPage } = require('../conformance/web/devtools');
  await picture(newPage, 'dashboard', `${ADMIN}/dashboard`, [1280, 800], "document.querySelector('[data-minutes=\"5\"]').click()");
  await picture(newPage, 'try', `${ADMIN}/try`, [1280, 620], `
    find('item').value = 'orders-[key=Avocado]';
    find('fields').value = 'sndValue intNum timestamp';
    find('add').requestSubmit();`);
  child.kill();
  process.exit(0);
}

main();
