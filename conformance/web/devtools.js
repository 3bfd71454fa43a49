// Client of the DevTools protocol of a running Chromium; WEIR_BROWSER is its endpoint.
'use strict';

const WebSocket = require('ws');

/** A DevTools connection: `send` sends a request, `on` registers a handler of an event. */
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
  socket.on('close', () => fail(new Error('the browser has exited')));
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

/** Converts an exception of a page to an error. */
const describe = (details) => new Error(details.exception?.description ?? details.text);

/**
 * A blank page in a separate profile. `send` and `on` apply to this page, `navigate` waits until a page
 * is loaded, `evaluate` runs an expression in it and returns its value, `settled` that of its promise.
 * A hidden page has no window, whose start takes several times as long as that of the page. It is
 * neither drawn nor focused.
 */
async function newPage({ hidden }) {
  const browser = await devTools(process.env.WEIR_BROWSER);
  const { browserContextId } = await browser.send('Target.createBrowserContext', { disposeOnDetach: true });
  const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank', browserContextId, hidden });
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId, flatten: true });
  const send = (method, params = {}) => browser.send(method, params, sessionId);
  for (const domain of ['Page', 'Runtime', 'Log', 'Inspector']) await send(`${domain}.enable`);
  browser.on('Inspector.targetCrashed', () => fail(new Error('the page has crashed')));
  const evaluate = async (options) => {
    const { result, exceptionDetails } = await send('Runtime.evaluate', { returnByValue: true, ...options });
    if (exceptionDetails) throw describe(exceptionDetails);
    return result.value;
  };
  return {
    send,
    on: browser.on,
    async navigate(url) {
      const loaded = new Promise((resolve) => browser.on('Page.loadEventFired', resolve));
      const { errorText } = await send('Page.navigate', { url });
      if (errorText) throw new Error(`${url}: ${errorText}`);
      await loaded;
    },
    evaluate: (expression) => evaluate({ expression }),
    settled: (expression) => evaluate({ expression, awaitPromise: true }),
  };
}

module.exports = { newPage, describe, fail };
