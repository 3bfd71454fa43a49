// Estimates the resources for a number of clients by interpolation between measured levels.

function between(points, clients, pick) {
  const known = points.filter((point) => point[pick] !== null);
  const above = known.find((point) => point.clients >= clients);
  const below = known.filter((point) => point.clients <= clients).pop();
  if (!above) return null;
  if (!below) return above[pick] * (pick === "p99_us" ? 1 : clients / above.clients);
  if (above.clients === below.clients) return above[pick];
  const share = (clients - below.clients) / (above.clients - below.clients);
  return below[pick] + (above[pick] - below[pick]) * share;
}

// Returns whether the next measured level was sustained, and the reason if it was not.
function statusAt(option, clients) {
  const above = option.points.find((point) => point.clients >= clients);
  const sustained = option.points.filter((point) => point.reason === null);
  const highest = sustained.length ? sustained[sustained.length - 1].clients : 0;
  if (!above) return { ok: false, reason: highest ? "not measured above " + number(highest) : "no level sustained" };
  if (above.reason === null) return { ok: true, reason: "sustained at " + number(above.clients) };
  return { ok: false, reason: number(above.clients) + " clients: " + above.reason };
}

function decide() {
  const section = document.getElementById("decision");
  if (!section || !data.options.length) return;
  const live = section.querySelector(".live");
  const most = Math.max(...data.options.flatMap((option) => option.points.map((point) => point.clients)));
  const fields = {};
  const form = element("div", "calculator");
  const field = (key, label, value, step) => {
    const box = element("label");
    box.append(element("span", "", label));
    const input = element("input");
    Object.assign(input, { type: "number", min: "0", step: step || "any", value: String(value) });
    input.addEventListener("input", show);
    box.append(input);
    fields[key] = input;
    form.append(box);
  };
  const result = element("div", "scroll");
  function show() {
    const clients = Math.max(1, Math.floor(Number(fields.clients.value) || 0));
    const price = (key) => Math.max(0, Number(fields[key].value) || 0);
    const lines = data.options.map((option) => {
      const at = (pick) => between(option.points, clients, pick);
      const [cores, memory, mbit, p99] = [at("cores"), at("memory_bytes"), at("mbit_per_s"), at("p99_us")];
      // 30 days of 86,400 s; 8 Mbit are 1 MB.
      const terabytes = mbit === null ? null : mbit / 8 * 2.592;
      const money = cores === null ? null
        : cores * price("core") + (memory || 0) / 1e9 * price("memory") + (terabytes || 0) * price("traffic");
      return { option, cores, memory, terabytes, p99, money, ...statusAt(option, clients) };
    });
    const priced = ["core", "memory", "traffic"].some((key) => price(key) > 0);
    const order = (line) => !line.ok || line.option.floor ? Infinity : priced ? line.money ?? Infinity : line.cores ?? Infinity;
    const best = lines.reduce((a, b) => order(b) < order(a) ? b : a);
    const table = element("table");
    const head = element("tr");
    ["For " + number(clients) + " clients", "status", "p99", "cores", "memory", "TB sent per month", ...(priced ? ["cost per month, $"] : [])]
      .forEach((text, index) => {
        const cell = element("th", index > 1 ? "n" : "", text);
        cell.scope = "col";
        head.append(cell);
      });
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    for (const line of lines) {
      const row = element("tr", line === best && order(best) < Infinity ? "best" : line.ok ? "" : "invalid");
      const name = element("th");
      name.scope = "row";
      name.append(element("i", "swatch " + line.option.slot), line.option.name);
      if (line.option.floor) name.append(element("span", "quiet", " (baseline)"));
      if (row.className === "best") name.append(" ", element("span", "badge ok", "cheapest"));
      row.append(name, element("td", "", line.reason));
      const figures = line.ok ? [time(line.p99), number(line.cores),
        line.memory === null ? "–" : short(line.memory / 1e6) + " MB", number(line.terabytes)] : ["–", "–", "–", "–"];
      if (priced) figures.push(line.ok && line.money !== null ? number(line.money) : "–");
      figures.forEach((text) => row.append(element("td", "n", text)));
      body.append(row);
    }
    table.append(top, body);
    result.replaceChildren(table);
  }
  field("clients", "clients", most, 1);
  field("core", "$ per core and month", data.prices.core);
  field("memory", "$ per GB of memory and month", data.prices.memory);
  field("traffic", "$ per TB sent", data.prices.traffic);
  live.append(form, result);
  section.classList.add("decided");
  show();
  stops.observe(result);
}
