/**
 * Follows items of a Weir gateway, in browsers and Node.js. Returns a function that ends it.
 *
 * options: url, items, fields, mode, snapshot, frequency, adapter,
 *   token (a string, or a function that returns one or a promise),
 *   onEvent(name, data), onValues(item, values), onStatus(status, detail).
 * Statuses: "open", "waiting" (connects again), "refused" (does not).
 */
export function follow(options) {
  const abort = new AbortController();
  const status = options.onStatus ?? (() => {});
  run(options, status, abort.signal).catch((error) => {
    if (!abort.signal.aborted) status("refused", String(error));
  });
  return () => abort.abort();
}

const IDLE_MS = 30_000;

async function run(options, status, signal) {
  const url = new URL("sse", options.url.replace(/\/*$/, "/"));
  for (const item of options.items) url.searchParams.append("item", item);
  for (const name of ["fields", "mode", "snapshot", "frequency", "adapter"]) {
    if (options[name] !== undefined) url.searchParams.set(name, options[name]);
  }
  for (let failures = 0; !signal.aborted; failures += 1) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    let reason = "the stream ended";
    try {
      const headers = await authorization(options.token);
      const init = { headers, signal: attempt.signal, credentials: "include", cache: "no-store" };
      const response = await fetch(url, init);
      if (!response.ok) {
        const text = (await response.text()).trim();
        if (response.status < 500 && response.status !== 429) return status("refused", text);
        throw new Error(text);
      }
      status("open");
      failures = 0;
      await read(response.body, options, stop);
    } catch (error) {
      reason = error.message;
    } finally {
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    status("waiting", reason);
    const delay = Math.min(30_000, 1_000 * 2 ** failures) * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, delay));
  }
}

async function authorization(token) {
  const text = typeof token === "function" ? await token() : token;
  return text ? { Authorization: `Bearer ${text}` } : {};
}

async function read(body, options, stop) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    // An idle stream has comments.
    const timer = setTimeout(stop, IDLE_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      if (!name) continue;
      const event = JSON.parse(data);
      options.onEvent?.(name, event);
      if (event.values) options.onValues?.(event.item, event.values);
    }
  }
}
