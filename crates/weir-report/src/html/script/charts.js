// Creates charts from a description of their lines and number formats.

const shown = [];

// Dash patterns distinguish lines without colours, as in the static charts.
const DASHES = { a0: [5, 3.5], a3: [8, 3, 2, 3], r1: [6, 3], r2: [2, 2.5], r3: [9, 3, 2, 3] };
const dashOf = (slot) => (slot || "").split(" ").reverse().map((part) => DASHES[part]).find(Boolean);

function nice(value, up) {
  const unit = Math.pow(10, Math.floor(Math.log10(value)));
  const steps = up ? [1, 2, 5, 10] : [10, 5, 2, 1];
  const fits = (step) => up ? step * unit >= value * 0.999 : step * unit <= value * 1.001;
  return (steps.find(fits) || 1) * unit;
}

function logRange(u, low, high) {
  if (!(high > 0)) return [1, 10];
  const from = nice(low > 0 ? low : high / 10, false);
  const to = nice(high, true);
  return [from, to > from ? to : from * 10];
}

function logTicks(u, axis, low, high) {
  const decades = Math.log10(high / low);
  const factors = decades <= 2.1 ? [1, 2, 5] : decades <= 3.1 ? [1, 3] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of factors) {
      const tick = factor * Math.pow(10, power);
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

function zeroRange(u, low, high) {
  if (!(high > 0)) return [0, 1];
  const rough = high * 1.04 / 4;
  const step = nice(rough, true);
  return [0, Math.ceil(high * 1.04 / step) * step];
}

function axis(over) {
  return Object.assign({
    stroke: () => ink("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: () => ink("--rule"), width: 1 },
    ticks: { show: false },
    gap: 6,
  }, over);
}

// Appends a chart to `into`. A line is {label, slot, values, dash, width}.
function chart(into, spec) {
  const box = element("div", "plot");
  box.append(element("p", "axis-title", spec.title));
  const host = element("div");
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", spec.title);
  box.append(host);
  into.append(box);
  const series = spec.lines.map((line) => ({
    label: line.label,
    stroke: () => line.slot ? color(line.slot) : ink("--ink"),
    width: line.width || 1.8,
    dash: line.dash || dashOf(line.slot),
    // A missing result interrupts a line; a time of another line (undefined) does not.
    spanGaps: false,
    points: { show: (u) => u.data[0].length < 3, size: 5 },
    value: line.value || ((u, value) => value === null ? "" : spec.full(value)),
    paths: line.paths,
  }));
  const options = {
    width: Math.max(200, into.clientWidth ? box.clientWidth : 420),
    height: spec.height || 200,
    series: [{ label: spec.xLabel, value: (u, value) => value === null ? "" : spec.xShow(value) }, ...series],
    scales: {
      x: { time: false, range: spec.xRange },
      y: { distr: spec.log ? 3 : 1, log: 10, range: spec.yRange || (spec.log ? logRange : zeroRange) },
    },
    axes: [
      axis({ size: 30, values: (u, ticks) => ticks.map(spec.xTick), splits: spec.xTicks, filter: (u, t) => t, space: 44 }),
      axis({
        size: 54, values: (u, ticks) => ticks.map(spec.tick),
        splits: spec.log ? logTicks : undefined, filter: (u, t) => t, space: 32,
        side: 3,
      }),
    ],
    cursor: {
      sync: spec.sync ? { key: spec.sync, scales: ["x", null] } : undefined,
      drag: { x: true, y: false },
      y: false,
      points: { size: 7 },
    },
    legend: { live: true, isolate: false },
    padding: [8, 10, 0, 0],
    hooks: spec.hooks || {},
  };
  const plot = new uPlot(options, [spec.x, ...spec.lines.map((line) => line.values)], host);
  copyBar(host, AS_IMAGE, () => copyImage(imageOfPlot(box)));
  shown.push({ plot, box });
  return plot;
}

// Removes the charts in `into`.
function clear(into) {
  for (let at = shown.length - 1; at >= 0; at--) {
    if (into.contains(shown[at].box)) {
      shown[at].plot.destroy();
      shown.splice(at, 1);
    }
  }
  into.replaceChildren();
}

function fit() {
  for (const { plot, box } of shown) {
    const width = box.clientWidth;
    if (width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height });
  }
}
