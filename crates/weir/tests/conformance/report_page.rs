//! The report of a run in a real browser: works without a network, and escapes all names.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use weir_stats::{Histogram, hlog};

use super::accessibility::{press_on, tab_order};
use super::page::Page;
use super::pages::{HOSTILE, MARKUP, views};
use super::test_env::Case;

const SECONDS: u64 = 12;
const SECOND_NS: u64 = 1_000_000_000;
/// Number of canvases that are not empty.
const DRAWN: &str = "[...document.querySelectorAll('#ID canvas')]\
     .filter((canvas) => canvas.getContext('2d')\
                     .getImageData(0, 0, canvas.width, canvas.height).data\
     .some((value) => value)).length";

/// Charts are drawn and interactive, without requests and errors.
pub(crate) fn report(case: &Case<'_>) -> Result<()> {
    let directory = case.dir().join("run");
    write_run(&directory)?;
    weir_report::write_all(&directory)?;
    let url = format!("file://{}/report.html", directory.canonicalize()?.display());
    let page = Page::open(case, &url)?;
    let drawn = |id: &str| DRAWN.replace("ID", id);
    page.until_is(&format!("String({})", drawn("percentiles")), "2")?;
    // Five quantities vary; the sixth is a sentence.
    page.until_is(&format!("String({})", drawn("time")), "5")?;
    let constant = "document.querySelector('#time .live').textContent";
    page.until(constant, |shown| {
        text(shown).contains("Constant, so without a chart: Records")
    })?;
    let stills = "getComputedStyle(document.querySelector('#time .still')).display";
    page.until_is(stills, "none")?;

    // A single subject has a heat map, and a CPU line per process role.
    let press = |text: &str| {
        format!(
            "[...document.querySelectorAll('#time button')]\
             .find((button) => button.textContent === {}).click()",
            json!(text)
        )
    };
    page.evaluate(&press(&name("gateway")))?;
    page.until_is(&format!("String({})", drawn("time")), "6")?;
    let parts = "[...document.querySelectorAll('#time .u-legend th')]\
         .map((entry) => entry.textContent).join()";
    page.until(parts, |names| {
        let has = |part| names.as_str().is_some_and(|names| names.contains(part));
        has("broker") && has("p99.9") && has("deliveries")
    })?;
    // Selecting another level updates all charts.
    page.evaluate(&press("200 clients"))?;
    let pressed = "[...document.querySelectorAll('[aria-pressed=true]')].filter((button) => \
                   button.textContent === '200 clients').length";
    page.until_is(&format!("String({pressed})"), "2")?;

    // Costs are interpolated between two levels; there are none beyond the last level.
    let cost_script = |clients: u64| {
        format!(
            "(() => {{ const input = document.querySelector('.calculator input'); \
             input.value = {clients}; \
             input.dispatchEvent(new Event('input')); \
             return document.querySelector('#decision .live table').textContent; }})()"
        )
    };
    let between = page.evaluate(&cost_script(150))?;
    ensure!(
        text(&between).contains("cheapest") && text(&between).contains("sustained at 200"),
        "{between}"
    );
    let beyond = page.evaluate(&cost_script(100_000))?;
    ensure!(!text(&beyond).contains("cheapest"), "{beyond}");
    ensure!(text(&beyond).contains("not measured above 200"), "{beyond}");

    copies(&page)?;
    views(case, &page)?;
    tab_order(&page)?;
    keys(&page)?;
    let markup = page.evaluate(MARKUP)?;
    ensure!(markup == 0, "{markup} elements from names");
    page.finish(&[&url])
}

/// Tables are sorted and details opened with keys.
fn keys(page: &Page) -> Result<()> {
    let sorted = "document.querySelector('.sortable th[aria-sort]').ariaSort";
    press_on(page, ".sortable th button", "Enter")?;
    page.until_is(sorted, "ascending")?;
    page.press(" ")?;
    page.until_is(sorted, "descending")?;
    let open = "document.querySelectorAll('details[open]').length";
    let before = page.evaluate(open)?;
    press_on(page, "summary", "Enter")?;
    page.until(open, |count| *count != before).map(drop)
}

/// Tables are copied as Markdown, static and interactive charts as images.
fn copies(page: &Page) -> Result<()> {
    page.evaluate(
        "navigator.clipboard.writeText = async (text) => { window.copied = text; };
         navigator.clipboard.write = async (items) => {
             window.copied = 'image of ' + (await items[0].getType('image/png')).size;
         };",
    )?;
    let press = |section: &str, label: &str| {
        format!(
            "window.copied = '';
             [...document.querySelectorAll('#{section} .copy')]
             .find((button) => button.textContent === '{label}').click()"
        )
    };
    let is_copied = |start: &str, part: &str| -> Result<()> {
        let fits = |it: &Value| text(it).starts_with(start) && text(it).contains(part);
        page.until("window.copied", fits).map(|_| ())
    };
    page.evaluate(&press("summary", "Copy as Markdown"))?;
    is_copied("| subject | relative | server cores |", "|\n| --- | --: |")?;
    for section in ["summary", "time"] {
        page.evaluate(&press(section, "Copy as image"))?;
        // An empty image has less than a thousand bytes.
        page.until("window.copied", |it| {
            let size = text(it).strip_prefix("image of ");
            size.and_then(|it| it.parse::<u64>().ok())
                .is_some_and(|size| size > 4_000)
        })?;
    }
    Ok(())
}

/// A comparison of client libraries: tables and charts, with escaped names of drivers.
pub(crate) fn libraries(case: &Case<'_>) -> Result<()> {
    let directory = case.dir().join("run");
    fs::create_dir_all(&directory)?;
    let run = run_of(json!({ "libraries": compared() }));
    fs::write(directory.join("run.json"), run.to_string())?;
    weir_report::write_all(&directory)?;
    let url = format!("file://{}/report.html", directory.canonicalize()?.display());
    let page = Page::open(case, &url)?;
    for section in ["produce", "roundtrip"] {
        let drawn = format!("document.querySelectorAll('#{section} svg').length > 0");
        page.until_is(&format!("String({drawn})"), "true")?;
    }
    let failed = "document.querySelector('#libraries').textContent";
    page.until(failed, |shown| text(shown).contains("it crashed"))?;
    views(case, &page)?;
    tab_order(&page)?;
    let markup = page.evaluate(MARKUP)?;
    ensure!(markup == 0, "{markup} elements from names");
    page.finish(&[&url])
}

/// Two libraries over a burst and an open loop, and one that crashed.
fn compared() -> Value {
    let driver = |name: &str, failed: Option<String>| {
        json!({
            "name": name, "library": HOSTILE, "library_version": HOSTILE, "binding": HOSTILE,
            "runtime": HOSTILE,
            "capabilities": ["produce.warm"], "warm_up_rounds": 5, "warm_up_settled": true,
            "failed": failed,
            "settings": [{ "name": HOSTILE, "requested": "5", "effective": HOSTILE,
            "supported": false }],
        })
    };
    let drivers = [
        driver("java", None),
        driver(HOSTILE, None),
        driver("other", Some(format!("it crashed {HOSTILE}"))),
    ];
    let (burst, open) = ("produce.warm/100x1000", "roundtrip.open/100@1000");
    let cell = |name: &str, work: &str, mode: &str, rate: Option<f64>| {
        json!({
            "name": name, "operation": work, "mode": mode, "value_bytes": 100, "records": 1_000,
            "rate_per_s": rate,
            "repetitions": PAIRS,
        })
    };
    let mut samples = Vec::new();
    for (place, name) in ["java", HOSTILE].into_iter().enumerate() {
        for repetition in 0..PAIRS {
            samples.push(measured(burst, name, repetition, 1 + place as u64));
            samples.push(measured(open, name, repetition, 1 + place as u64));
        }
    }
    json!({
        "profile": "fair", "aa_test": false, "drivers": drivers, "samples": samples,
        "cells": [cell(burst, "produce", "warm", None), cell(open, "roundtrip",
        "open", Some(1_000.0))],
    })
}

fn measured(cell: &str, driver: &str, repetition: u32, slower: u64) -> Value {
    let took = 1_000 * slower + u64::from(repetition);
    let times = json!({
        "count": 3, "sum_us": 3 * took, "min_us": took - 1, "max_us": took + 1,
        "pairs": [[took - 1, 1], [took, 1], [took + 1, 1]],
    });
    let is_burst = cell.starts_with("produce");
    json!({
        "cell": cell, "driver": driver, "repetition": repetition, "turn": slower - 1,
        "offset_s": 1.0, "invalid": [],
        "marks": [HOSTILE], "other_processes_share": 0.01, "noisy": false, "send_us": took,
        "delivered_us": took, "cpu_us": took,
        "records": 1_000, "bytes": 108_000, "failed": 0, "peak_rss_kb": 50_000, "threads": 9,
        "latency": if is_burst { Value::Null } else { times.clone() },
        "pacing": if is_burst { Value::Null } else { times },
    })
}

/// Enough repetitions for an interval.
const PAIRS: u32 = 7;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Rows contain a variant name with markup.
fn name(architecture: &str) -> String {
    format!("{architecture} {HOSTILE}")
}

fn write_run(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    let mut cells = Vec::new();
    for clients in [100, 200] {
        for (place, architecture) in ["gateway", "standalone"].into_iter().enumerate() {
            let file = format!("{architecture}-{clients}.hlog");
            write_log(&directory.join(&file), 1 + place as u64)?;
            cells.push(cell(architecture, clients, &file));
        }
    }
    let run = run_of(json!({ "cells": cells }));
    fs::write(directory.join("run.json"), run.to_string())?;
    Ok(())
}

/// Returns a run with these members.
fn run_of(parts: Value) -> Value {
    let mut run = json!({
        "schema": "weir.run/3", "plan": "test", "title": HOSTILE, "question": HOSTILE,
        "started_utc": "2026-01-01T00:00:00Z", "finished_utc": "2026-01-01T00:01:00Z",
        "command_line": ["weir", "bench", HOSTILE], "weir_version": "0", "outcome": "complete",
        "confidence": {"level": "indicative", "reasons": [HOSTILE]},
        "verdict": HOSTILE, "warnings": [HOSTILE], "clock": { "mode": "same_host", "bound_ns": 0 },
        "machine": { "cpu_model": "test", "cpu_cores": 2, "memory_bytes": 1, "kernel": "",
        "os": "" },
        "cells": [],
    });
    if let (Value::Object(run), Value::Object(parts)) = (&mut run, parts) {
        run.extend(parts);
    }
    run
}

fn write_log(file: &Path, slower: u64) -> Result<()> {
    let mut log = hlog::IntervalLogWriter::new(File::create(file)?, SECOND_NS, &["test"])?;
    for second in 0..SECONDS {
        let mut histogram = Histogram::new();
        for value in 1..=4_000 {
            histogram.record_ns(value * value * slower * (500 + 100 * (second % 3)));
        }
        let from_ns = SECOND_NS * (1 + second);
        log.write("response", from_ns, from_ns + SECOND_NS, &histogram)?;
        log.write("service", from_ns, from_ns + SECOND_NS, &histogram)?;
    }
    Ok(log.flush()?)
}

fn cell(architecture: &str, clients: u64, file: &str) -> Value {
    let delivering = if architecture == "gateway" {
        "gateway"
    } else {
        "broker"
    };
    let series: Vec<Value> = (1..=SECONDS)
        .map(|second| {
            json!({
                "t_s": second, "offered_per_s": 100.0, "achieved_per_s": 99.0,
                "delivered_per_s": 4_000.0 + 100.0 * second as f64,
                "p50_us": 900.0, "p99_us": 2_000.0 + 100.0 * second as f64,
                "lag_p99_us": 50.0 + second as f64, "backlog": second,
                "cpu_cores": { "broker": 0.2, "gateway": 0.1 },
            })
        })
        .collect();
    let roles: Vec<Value> = ["broker", delivering]
        .into_iter()
        .map(|role| {
            json!({
                "role": role, "processes": 1, "cpu_us_total": 1_000, "cpu_cores_mean": 0.3,
                "cpu_us_per_delivered": 3.0, "rss_max_bytes": 50_000_000,
            })
        })
        .collect();
    json!({
        "architecture": architecture, "variant": HOSTILE, "clients": clients, "repetition": 1,
        "status": { "state": "valid" }, "warm_up_s": 1.0, "hold_s": SECONDS as f64,
        "noisy": [{ "from_s": 2.0, "until_s": 4.0, "reason": HOSTILE }],
        "offered_records_per_s": 100.0, "hlog_file": file, "series": series, "roles": roles,
        "latency": {
            "response": { "count": 4_000 * SECONDS, "resolution_us": 0.001 },
            "service": { "count": 4_000 * SECONDS, "resolution_us": 0.001 },
        },
        "delivery": {
            "expected": 48_000, "delivered": 48_000, "lost": 0, "duplicated": 0, "reordered": 0,
            "conflated": 0,
            "unchecked": 0, "delivered_per_s": 4_000.0, "received_bytes": 1_000,
            "received_mbit_per_s": 3.2,
            "disconnects": 0,
        },
    })
}
