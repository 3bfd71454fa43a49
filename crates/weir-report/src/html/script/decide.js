// What a number of clients would take, reckoned between the levels that were measured.

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

// Whether the next measured level at or above was held, and if not, why.
function standing(offer, clients) {
  const above = offer.points.find((point) => point.clients >= clients);
  const held = offer.points.filter((point) => point.trouble === null);
  const highest = held.length ? held[held.length - 1].clients : 0;
  if (!above) return { ok: false, why: highest ? "not measured beyond " + number(highest) : "held no level" };
  if (above.trouble === null) return { ok: true, why: "held " + number(above.clients) };
  return { ok: false, why: number(above.clients) + " clients: " + above.trouble };
}

function decide() {
  const section = document.getElementById("decision");
  if (!section || !data.offers.length) return;
  const live = section.querySelector(".live");
  const most = Math.max(...data.offers.flatMap((offer) => offer.points.map((point) => point.clients)));
  const fields = {};
  const form = element("div", "reckoner");
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
    const lines = data.offers.map((offer) => {
      const at = (pick) => between(offer.points, clients, pick);
      const [cores, memory, mbit, p99] = [at("cores"), at("memory_bytes"), at("mbit_per_s"), at("p99_us")];
      // 30 days of 86,400 s; 8 Mbit are a MB.
      const terabytes = mbit === null ? null : mbit / 8 * 2.592;
      const money = cores === null ? null
        : cores * price("core") + (memory || 0) / 1e9 * price("memory") + (terabytes || 0) * price("traffic");
      return { offer, cores, memory, terabytes, p99, money, ...standing(offer, clients) };
    });
    const priced = ["core", "memory", "traffic"].some((key) => price(key) > 0);
    const order = (line) => !line.ok || line.offer.floor ? Infinity : priced ? line.money ?? Infinity : line.cores ?? Infinity;
    const best = lines.reduce((a, b) => order(b) < order(a) ? b : a);
    const table = element("table");
    const head = element("tr");
    ["For " + number(clients) + " clients", "stands", "p99", "cores", "memory", "TB sent a month", ...(priced ? ["a month"] : [])]
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
      name.append(element("i", "swatch " + line.offer.slot), line.offer.name);
      if (line.offer.floor) name.append(element("span", "quiet", " (yardstick)"));
      if (row.className === "best") name.append(" ", element("span", "badge ok", "choose"));
      row.append(name, element("td", "", line.why));
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
  field("core", "price of a core a month", 0);
  field("memory", "of a GB of memory a month", 0);
  field("traffic", "of a TB sent", 0);
  live.append(form, result);
  section.classList.add("decided");
  show();
}
