// Follows items of a Weir gateway (docs/without-sdk.md). Returns a function that ends it.
export function follow(options) {
  const end = new AbortController();
  run(options, end.signal);
  return () => end.abort();
}

async function run(options, end) {
  const { url, token, socket, onEvent, onValues, onStatus, ...wanted } = options;
  for (let failures = 0; !end.aborted; failures += 1) {
    const idle = new AbortController();
    let timer;
    const emit = (name, data) => {
      clearTimeout(timer);
      timer = setTimeout(() => idle.abort(), 30_000);
      if (name === "open") {
        failures = 0;
        onStatus?.(name);
      } else if (name) onEvent?.(name, data);
      if (data?.values) onValues?.(data.item, data.values);
    };
    let fault;
    try {
      emit();
      const at = new URL(socket ? "ws" : "sse", url.replace(/\/*$/, "/"));
      const secret = await (token?.call ? token() : token);
      await (socket ? talk : read)(at, wanted, secret, emit, AbortSignal.any([end, idle.signal]));
    } catch (error) {
      fault = error;
    }
    clearTimeout(timer);
    if (end.aborted) return;
    if (fault?.cause === true) return onStatus?.("refused", fault.message);
    onStatus?.("waiting", fault?.message ?? "ended");
    const delay = Math.min(30_000, 2 ** failures * 1_000) * (0.5 + Math.random() / 2);
    await new Promise((then) => setTimeout(then, delay));
  }
}

function talk(at, wanted, password, emit, signal) {
  at.protocol = at.protocol.replace("http", "ws");
  const socket = new WebSocket(at);
  signal.onabort = () => socket.close();
  const first = { type: "subscribe", password, ...wanted };
  socket.onopen = () => socket.send(JSON.stringify(first));
  let text;
  socket.onmessage = ({ data }) => {
    const { event, ...rest } = JSON.parse(data);
    text = rest.message;
    emit(event, rest);
  };
  return new Promise((_, reject) => {
    socket.onerror = socket.onclose = ({ code }) =>
      reject(new Error(text ?? code, { cause: code === 1008 }));
  });
}

async function read(at, { items, ...wanted }, token, emit, signal) {
  for (const item of items) at.searchParams.append("item", item);
  for (const name in wanted) {
    if (wanted[name] !== undefined) at.searchParams.set(name, wanted[name]);
  }
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const got = await fetch(at, { headers, signal, credentials: "include" });
  const isFinal = got.status < 500 && got.status !== 429;
  if (!got.ok) throw new Error(await got.text(), { cause: isFinal });
  emit("open");
  const reader = got.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
      emit(name, name && JSON.parse(data));
    }
  }
}
