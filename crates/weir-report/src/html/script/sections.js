// The interactive sections: percentiles, and results over time.

const level = () => data.levels[state.level];
const named = (subject) => data.subjects[subject][0];
const slotOf = (subject) => data.subjects[subject][1];
const slotIn = (list, name) => (list.find((entry) => entry[0] === name) || ["", "a6"])[1];

function levelChoice(draw) {
  const names = data.levels.map((one) => one.label);
  return choice("Level", names, state.level, (index) => {
    state.level = index;
    draw();
  });
}

// Percentiles: x is the number of nines, so each step has ten times fewer records above it.
const NINES = [["0", 0], ["50", Math.log10(2)], ["90", 1], ["99", 2], ["99.9", 3], ["99.99", 4],
  ["99.999", 5], ["99.9999", 6]];

function percentileChart(into, title, lines) {
  const points = Math.max(2, ...lines.map((line) => line.values.length));
  const x = Array.from({ length: points }, (_, index) => index / 20);
  const padded = lines.map((line) => Object.assign({}, line, {
    values: x.map((_, index) => index < line.values.length ? line.values[index] : null),
  }));
  const share = (nines) => {
    const percent = 100 * (1 - Math.pow(10, -nines));
    return "p" + percent.toFixed(Math.max(0, Math.ceil(nines) - 1)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  };
  const nameOf = new Map(NINES.map(([name, at]) => [at, name]));
  const last = Math.max(1.5, x[x.length - 1]);
  chart(into, {
    title, lines: padded, x, log: true, height: 300,
    xLabel: "", xShow: share, xRange: [0, last],
    xTicks: () => NINES.map((nine) => nine[1]).filter((at) => at <= last + 1e-9),
    xTick: (at) => nameOf.get(at) || "",
    tick: time, full: timeFull,
  });
}

function drawPercentiles(into) {
  clear(into);
  const rows = level().rows;
  const stages = [...new Set(rows.flatMap((row) => Object.keys(row.curves)))]
    .sort((a, b) => (b === "response") - (a === "response") || a.localeCompare(b));
  if (!stages.length) return into.append(element("p", "caption", "No interval logs at this level."));
  if (!stages.includes(state.stage)) state.stage = stages[0];
  const bar = element("div", "choices");
  bar.append(levelChoice(drawAll));
  bar.append(choice("Stage", stages.map((name) => name.replace(/_/g, " ")), stages.indexOf(state.stage),
    (index) => { state.stage = stages[index]; drawAll(); }));
  into.append(bar);
  const grid = element("div", "grid2");
  into.append(grid);
  const by = rows.filter((row) => row.curves[state.stage]).map((row) => ({
    label: named(row.subject), slot: slotOf(row.subject), values: row.curves[state.stage],
  }));
  percentileChart(grid, "Latency of stage “" + state.stage.replace(/_/g, " ") + "” by percentile, log scale", by);
  const one = rows.find((row) => row.subject === state.subject) || rows.find((row) => named(row.subject) === "gateway") || rows[0];
  const byStage = Object.keys(one.curves).sort().map((name) => ({
    label: name.replace(/_/g, " "), slot: slotIn(data.stages, name), values: one.curves[name],
  }));
  percentileChart(grid, "All stages of " + named(one.subject) + " by percentile, log scale", byStage);
}

// Over time: all charts share their cursor.
function timeChart(into, title, tables, over) {
  const used = tables.filter((table) => table.values.some((value) => value !== null));
  if (!used.length) return;
  const joined = used.length > 1
    ? uPlot.join(used.map((table) => [table.t_s, table.values]))
    : [used[0].t_s, used[0].values];
  const lines = used.map((table, index) => Object.assign({}, table, { values: joined[index + 1] }));
  const value = over && over.varies ? null : constant(used);
  if (value !== null) {
    constants.push(title.replace(/, log scale$/, "") + " " + ((over && over.full) || number)(value));
    return;
  }
  chart(into, Object.assign({
    title, lines, x: joined[0], sync: "time", height: 190,
    xLabel: "", xShow: (at) => Math.round(at * 10) / 10 + " s", xTick: (at) => trimmed(at) + " s",
    xRange: () => [timeRange[0], timeRange[1]],
    tick: short, full: number,
    hooks: { drawClear: [shade] },
  }, over));
}

let timeRange = [0, 1];
// Quantities without a chart, because they did not vary.
let constants = [];

// Returns the value of all seconds of all lines, or null if they differ by more than 2 %.
function constant(tables) {
  const measured = tables.flatMap((table) =>
    table.values.filter((value, index) => value !== null && table.t_s[index] > 0));
  const [low, high] = [Math.min(...measured), Math.max(...measured)];
  return measured.length && high - low <= Math.abs(high) * 0.02 ? (low + high) / 2 : null;
}

// Spans in which a cell that is shown was disturbed, without overlaps.
let disturbed = [];

function shade(u) {
  const { left, top, width, height } = u.bbox;
  const at = (second) => Math.min(left + width, Math.max(left, u.valToPos(second, "x", true)));
  const band = (from, until) => u.ctx.fillRect(at(from), top, at(until) - at(from), height);
  u.ctx.save();
  u.ctx.fillStyle = ink("--panel");
  band(timeRange[0], 0);
  u.ctx.globalAlpha = 0.16;
  u.ctx.fillStyle = "#c98a00";
  for (const [from, until] of disturbed) band(from, until);
  u.ctx.restore();
}

const chosen = (row) => row.cells[Math.min(state.cell, row.cells.length - 1)];

function drawTime(into) {
  clear(into);
  const rows = level().rows.filter((row) => row.cells.length && chosen(row).t_s.length > 1);
  const bar = element("div", "choices");
  bar.append(levelChoice(drawAll));
  into.append(bar);
  if (!rows.length) return into.append(element("p", "caption", "No values per second were recorded at this level."));
  const at = rows.findIndex((row) => row.subject === state.subject);
  bar.append(choice("Show", ["all", ...rows.map((row) => named(row.subject))], at + 1, (index) => {
    state.subject = index === 0 ? -1 : rows[index - 1].subject;
    drawAll();
  }));
  const most = Math.max(...rows.map((row) => row.cells.length));
  if (most > 1) {
    const names = Array.from({ length: most }, (_, index) => String(index + 1));
    bar.append(choice("Repetition", names, Math.min(state.cell, most - 1), (index) => {
      state.cell = index;
      drawAll();
    }));
  }
  const cells = rows.map(chosen);
  constants = [];
  disturbed = [];
  const spans = (at < 0 ? cells : [chosen(rows[at])]).flatMap((cell) => cell.noisy);
  for (const [from, until] of spans.sort((a, b) => a[0] - b[0])) {
    const last = disturbed[disturbed.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], until);
    else disturbed.push([from, until]);
  }
  const times = (at < 0 ? cells : [chosen(rows[at])]).flatMap((cell) => cell.t_s);
  timeRange = [Math.min(0, ...times), Math.max(1, ...times)];
  const grid = element("div", "grid2");
  into.append(grid);
  if (at < 0) sideBySide(grid, rows);
  else oneAlone(grid, rows[at]);
  if (constants.length) {
    into.append(element("p", "caption", "Constant, so without a chart: " + constants.join("; ") + "."));
  }
}

function sideBySide(grid, rows) {
  const lines = (pick) => rows.map((row) => {
    const cell = chosen(row);
    return { label: named(row.subject), slot: slotOf(row.subject), t_s: cell.t_s, values: pick(cell) || cell.t_s.map(() => null) };
  });
  const latency = { log: true, tick: time, full: timeFull };
  timeChart(grid, "Response time p99 per second, log scale", lines((cell) => cell.p99_us), latency);
  timeChart(grid, "Deliveries per second", lines((cell) => cell.delivered));
  timeChart(grid, "Backlog: acknowledged, not yet delivered", lines((cell) => cell.backlog));
  timeChart(grid, "CPU of the delivering process, cores", lines((cell) => cell.cpu[cell.delivering]));
  const offered = lines((cell) => cell.offered).slice(0, 1)
    .map((line) => Object.assign(line, { label: "target", slot: "", dash: [4, 4], width: 1.2 }));
  timeChart(grid, "Records per second, target and acknowledged", offered.concat(lines((cell) => cell.achieved)));
  timeChart(grid, "Schedule lag, p99", lines((cell) => cell.lag_us), { tick: time, full: timeFull });
}

function oneAlone(grid, row) {
  const cell = chosen(row);
  const slot = slotOf(row.subject);
  const line = (label, values, over) => Object.assign({ label, slot, t_s: cell.t_s, values }, over);
  timeChart(grid, "Response time per second, log scale", [
    line("p50", cell.p50_us, { dash: [2, 3] }),
    line("p99", cell.p99_us, { width: 2.2 }),
    line("p99.9", cell.p999_us, { dash: [7, 3], width: 1.3 }),
    line("max", cell.max_us, { slot: "a0", width: 1 }),
  ], { log: true, tick: time, full: timeFull });
  if (cell.heat) heatMap(grid, cell, slot);
  timeChart(grid, "Records per second", [
    line("target", cell.offered, { slot: "", dash: [4, 4], width: 1.2 }),
    line("acknowledged", cell.achieved),
  ]);
  timeChart(grid, "Deliveries per second", [line("delivered", cell.delivered)]);
  timeChart(grid, "Backlog: acknowledged, not yet delivered", [line("backlog", cell.backlog)]);
  timeChart(grid, "CPU by process role, cores", Object.keys(cell.cpu).map((role) =>
    line(role, cell.cpu[role], { slot: slotIn(data.roles, role) })));
  timeChart(grid, "Schedule lag, p99", [line("schedule lag", cell.lag_us, { slot: "a0" })],
    { tick: time, full: timeFull });
}

// Draws deliveries by second and latency range; darker means more.
function heatMap(into, cell, slot) {
  const heat = cell.heat;
  const border = (bin) => Math.pow(10, (heat.low_bin + bin) / data.bins_per_decade);
  const bins = heat.counts[0].length;
  const most = Math.max(1, ...heat.counts.map((counts) => Math.max(...counts)));
  const draw = (u) => {
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.fillStyle = color(slot);
    heat.t_s.forEach((second, index) => {
      const before = index > 0 ? heat.t_s[index - 1] : second - 1;
      const [left, right] = [u.valToPos(before, "x", true), u.valToPos(second, "x", true)];
      heat.counts[index].forEach((count, bin) => {
        if (!count) return;
        const [low, high] = [u.valToPos(border(bin), "y", true), u.valToPos(border(bin + 1), "y", true)];
        ctx.globalAlpha = 0.1 + 0.9 * Math.log1p(count) / Math.log1p(most);
        ctx.fillRect(left, high, Math.max(1, right - left - 0.5), low - high);
      });
    });
    ctx.restore();
  };
  const read = (u, value, series, index) => {
    if (index === null || index === undefined || !(u.cursor.top >= 0)) return "";
    const bin = Math.floor(Math.log10(u.posToVal(u.cursor.top, "y")) * data.bins_per_decade) - heat.low_bin;
    const counts = heat.counts[index] || [];
    if (bin < 0 || bin >= bins) return "";
    return time(border(bin)) + " to " + time(border(bin + 1)) + ": " + number(counts[bin]);
  };
  timeChart(into, "Deliveries by latency per second, log scale", [{
    label: "deliveries", slot, t_s: heat.t_s, values: heat.t_s.map(() => border(0)), value: read, paths: () => null,
  }], {
    varies: true,
    log: true, tick: time, full: timeFull, yRange: () => [border(0), border(bins)],
    hooks: { drawClear: [shade], draw: [draw] },
  });
}
