// A chart of lines over time as SVG, redrawn for each sample. Text is never inserted as markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const PLOT = { height: 150, left: 52, right: 8, top: 8, bottom: 20 };

function svg(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

function html(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

/** The next of 1, 2, 4, 6, 8, 10, 20 ... (in powers of 1024 for bytes); half of it is short, too. */
function niceAbove(value, base) {
  if (!(value > 0)) return 1;
  let unit = 1;
  while (base && value / unit >= base) unit *= base;
  const scaled = value / unit;
  const power = 10 ** Math.floor(Math.log10(scaled));
  const step = [1, 2, 4, 6, 8, 10].find((one) => one * power >= scaled * 0.999);
  // Axis steps for binary units treat 1000 KiB as 1 MiB.
  return base && step * power >= 1000 ? unit * base : step * power * unit;
}

class Chart {
  /**
   * `options`: title, format, series ([column, label] each), and optionally base (1024 for bytes),
   * least (what the axis reaches at least) and peak (columns of pixels show the highest value, not the mean).
   */
  constructor(options) {
    this.options = options;
    this.element = html("figure");
    const caption = html("figcaption", "", this.element);
    html("h3", "", caption, options.title);
    const legend = html("ul", "legend", caption);
    this.values = options.series.map(([, label], number) => {
      const entry = html("li", "", legend);
      const key = svg("svg", { viewBox: "0 0 12 8", "aria-hidden": "true" }, entry);
      svg("rect", { width: 12, height: 8, rx: 2, class: `key c${number % 8}` }, key);
      entry.append(`${label} `);
      return html("b", "", entry, "–");
    });
    this.plot = svg("svg", { class: "plot", role: "img" }, this.element);
  }

  /** Draws `history` from `from` to `to`; `at` is the time under the pointer, if it is on a chart. */
  draw(history, from, to, at) {
    const width = Math.max(this.element.clientWidth - 26, 240);
    const inner = { width: width - PLOT.left - PLOT.right, height: PLOT.height - PLOT.top - PLOT.bottom };
    const x = (time) => PLOT.left + ((time - from) / (to - from)) * inner.width;
    const lines = this.options.series.map(([column]) => this.points(history, column, from, to, inner.width));
    const values = lines.flat().map(([, value]) => value).filter((value) => value !== null);
    const top = niceAbove(Math.max(this.options.least || 0, ...values), this.options.base);
    const y = (value) => PLOT.top + (1 - value / top) * inner.height;
    this.view = { from, to, left: PLOT.left, width: inner.width, total: width };
    this.plot.setAttribute("viewBox", `0 0 ${width} ${PLOT.height}`);
    this.plot.replaceChildren();
    this.axes(width, top, x, y, from, to);
    lines.forEach((points, number) => this.line(points, number, x, y, history.gapMs));
    this.marks(history.events.filter((event) => event.unix_ms >= from && event.unix_ms <= to), x, y);
    if (at !== null) {
      svg("line", { class: "cursor", x1: x(at), x2: x(at), y1: PLOT.top, y2: y(0) }, this.plot);
    }
    const shown = this.options.series.map(([column]) => history.valueAt(column, at));
    this.values.forEach((value, number) => {
      value.textContent = this.options.format(shown[number]);
    });
    const spoken = this.options.series.map(([, label], number) => `${label} ${this.options.format(shown[number])}`);
    this.plot.setAttribute("aria-label", `${this.options.title}: ${spoken.join(", ")}`);
  }

  /** A line per event with a flag, whose text appears under the pointer and in the table of events. */
  marks(events, x, y) {
    for (const { unix_ms: time, kind, text } of events) {
      const at = x(time);
      const group = svg("g", {}, this.plot);
      svg("title", {}, group).textContent = `${Format.clock(time, true)} ${text}`;
      svg("line", { class: `event ${kind}`, x1: at, x2: at, y1: PLOT.top, y2: y(0) }, group);
      svg("path", { class: `flag ${kind}`, d: `M${at - 4} ${PLOT.top - 6}h8l-4 7Z` }, group);
    }
  }

  axes(width, top, x, y, from, to) {
    for (const value of [0, top / 2, top]) {
      const line = { class: "grid", x1: PLOT.left, x2: width - PLOT.right, y1: y(value), y2: y(value) };
      svg("line", line, this.plot);
      const place = { x: PLOT.left - 6, y: y(value) + 4, "text-anchor": "end" };
      svg("text", place, this.plot).textContent = this.options.format(value).replace("/s", "");
    }
    const ends = [[from, "start"], [(from + to) / 2, "middle"], [to, "end"]];
    for (const [time, anchor] of ends) {
      const place = { x: x(time), y: PLOT.height - 5, "text-anchor": anchor };
      svg("text", place, this.plot).textContent = Format.clock(time, to - from < 600000);
    }
  }

  /** At most one point per two pixels; unknown values are null. */
  points(history, column, from, to, pixels) {
    const values = history.column(column);
    if (!values) return [];
    const points = [];
    const width = Math.max(((to - from) / pixels) * 2, 1);
    let [cell, sum, count, high, last] = [null, 0, 0, -Infinity, 0];
    const close = () => {
      if (count > 0) points.push([last, this.options.peak ? high : sum / count]);
      [sum, count, high] = [0, 0, -Infinity];
    };
    for (let i = history.firstAfter(from); i < values.length; i += 1) {
      const [time, value] = [history.times[i], values[i]];
      const here = Math.floor(time / width);
      if (here !== cell) close();
      cell = here;
      if (value === null) {
        close();
        points.push([time, null]);
      } else {
        [sum, count, high, last] = [sum + value, count + 1, Math.max(high, value), time];
      }
    }
    close();
    return points;
  }

  line(points, number, x, y, gapMs) {
    let path = "";
    let area = "";
    let begin = null;
    let before = null;
    const finish = () => {
      if (begin !== null) area += `L${x(before).toFixed(1)} ${y(0).toFixed(1)}L${x(begin).toFixed(1)} ${y(0).toFixed(1)}Z`;
      begin = null;
    };
    for (const [time, value] of points) {
      if (value === null || (before !== null && time - before > gapMs * 3 + this.cellMs())) finish();
      if (value === null) continue;
      const point = `${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      path += (begin === null ? "M" : "L") + point;
      area += (begin === null ? "M" : "L") + point;
      if (begin === null) begin = time;
      before = time;
    }
    finish();
    const colour = `c${number % 8}`;
    if (number === 0) svg("path", { class: `area ${colour}`, d: area }, this.plot);
    svg("path", { class: `series ${colour}`, d: path }, this.plot);
  }

  cellMs() {
    return ((this.view.to - this.view.from) / this.view.width) * 2;
  }

  /** The time under a pointer event, null outside the plot. */
  timeAt(event) {
    if (!this.view) return null;
    const box = this.plot.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * this.view.total - this.view.left;
    if (at < 0 || at > this.view.width) return null;
    return this.view.from + (at / this.view.width) * (this.view.to - this.view.from);
  }
}
