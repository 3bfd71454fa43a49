// Follows items; the result ends it (docs/without-sdk.md).
export function follow(options) {
  const end = new AbortController();
  run(options, end.signal);
  return () => end.abort();
}

async function run({ url, token, socket, onEvent, onValues, onStatus, ...wanted }, end) {
  for (let failures = 0; !end.aborted; failures++) {
    const idle = new AbortController();
    let fault, timer;
    const emit = (name, data, id) => {
      if (id) wanted.after = id;
      clearTimeout(timer);
      timer = setTimeout(() => idle.abort(), 3e4);
      if (name === "open") {
        failures = 0;
        onStatus?.(name);
      } else if (name) onEvent?.(name, data);
      if (data?.values) onValues?.(data.item, data.values);
    };
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
    const delay = Math.min(15e3, 2 ** failures * 500) * (1 + Math.random());
    await new Promise((then) => setTimeout(then, delay));
  }
}

function talk(at, wanted, password, emit, signal) {
  at.protocol = at.protocol.replace("http", "ws");
  const socket = new WebSocket(at);
  signal.onabort = () => socket.close();
  wanted = { type: "subscribe", password, ...wanted };
  socket.onopen = () => socket.send(JSON.stringify(wanted));
  let text;
  socket.onmessage = ({ data }) => {
    const { event, id, ...rest } = JSON.parse(data);
    text = rest.message;
    emit(event, rest, id);
  };
  return new Promise((_, reject) => {
    socket.onerror = socket.onclose = ({ code }) =>
      reject(new Error(text ?? code, { cause: code === 1008 }));
  });
}

async function read(at, { items, after, ...wanted }, token, emit, signal) {
  for (const item of items) at.searchParams.append("item", item);
  wanted.lastEventId = after;
  for (const name in wanted) {
    if (wanted[name] != null) at.searchParams.set(name, wanted[name]);
  }
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const got = await fetch(at, { headers, signal, credentials: "include" });
  const cause = got.status < 500 && got.status !== 429;
  if (!got.ok) throw new Error(await got.text(), { cause });
  emit("open");
  const reader = got.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const [, , name, data, , id] =
        /^(event: (.*)\ndata: (.*)\n?)?(id: (.*))?$/.exec(block) ?? [];
      emit(name, name && JSON.parse(data), id);
    }
  }
}
