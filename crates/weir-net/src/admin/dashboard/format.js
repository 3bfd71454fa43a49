// Formats numbers and times.
"use strict";

const Format = {
  /** 1234567 as "1.23 M". */
  count(value) {
    return Format.scaled(value, 1000, ["", " k", " M", " G", " T"]);
  },

  /** "1 item", "2 items". */
  some(value, name) {
    return `${Format.count(value)} ${name}${value === 1 ? "" : "s"}`;
  },

  bytes(value) {
    return Format.scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
  },

  perSecond(value) {
    return Format.count(value) + "/s";
  },

  /** A rate that may be unknown, with at most three digits. */
  rate(value) {
    return value === null ? "–" : Format.perSecond(value);
  },

  bytesPerSecond(value) {
    return Format.bytes(value) + "/s";
  },

  milliseconds(value) {
    if (value === null) return "–";
    return value < 1000 ? Format.digits(value) + " ms" : Format.digits(value / 1000) + " s";
  },

  percent(value) {
    return value === null ? "–" : Format.digits(value * 100) + " %";
  },

  cores(value) {
    return value === null ? "–" : Format.digits(value);
  },

  scaled(value, base, units) {
    if (value === null) return "–";
    let power = 0;
    while (Math.abs(value) >= base && power < units.length - 1) {
      value /= base;
      power += 1;
    }
    return Format.digits(value) + units[power];
  },

  /** Three significant digits. */
  digits(value) {
    const size = Math.abs(value);
    if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
    return value.toFixed(size >= 10 ? 1 : 2).replace(/\.?0+$/, "") || "0";
  },

  clock(unixMs, seconds) {
    const options = { hour: "2-digit", minute: "2-digit", hour12: false };
    if (seconds) options.second = "2-digit";
    return new Date(unixMs).toLocaleTimeString([], options);
  },

  duration(ms) {
    const minutes = Math.floor(ms / 60000);
    const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
    if (days > 0) return `${days} d ${hours} h`;
    if (hours > 0) return `${hours} h ${minutes % 60} min`;
    return minutes > 0 ? `${minutes} min` : `${Math.floor(ms / 1000)} s`;
  },
};
