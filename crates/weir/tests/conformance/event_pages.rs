//! Pages without an SDK in a real browser: `EventSource`, and the module over both transports.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::gateway::GatewayProcess;
use super::page::Page;
use super::pages::{HOSTILE, MARKUP, Site};
use super::test_env::{Case, any_port};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/events");

/// A page that follows the items of the query with the module, and stores what it gets.
const MODULE_PAGE: &str = r#"<!doctype html><html lang="en"><title>Module</title>
<link rel="icon" href="data:,">
<script type="module">
import { follow } from "./weir-events.js";
const query = new URLSearchParams(location.search);
window.shown = {};
window.states = [];
window.end = follow({
  url: query.get("server"),
  items: query.getAll("item"),
  fields: ["value"],
  socket: query.has("socket"),
  onStatus: (status) => window.states.push(status),
  onValues: (item, values) => { window.shown[item] = values.value; },
});
</script></html>"#;

/// A page that stores each record of its item, and the state of its connection.
const RECORDS_PAGE: &str = r#"<!doctype html><html lang="en"><title>Records</title>
<link rel="icon" href="data:,">
<script type="module">
window.got = [];
const source = new EventSource(new URLSearchParams(location.search).get("events"));
source.onopen = () => { window.state = "open"; };
source.onerror = () => { window.state = "lost"; };
for (const name of ["snapshot", "update", "reset"]) {
  source.addEventListener(name, (event) => {
    window.got.push(`${name} ${JSON.parse(event.data).values?.value}`);
  });
}
</script></html>"#;

/// Values of the example page, and of pages with the module, change with the records.
pub(crate) fn events(case: &Case<'_>) -> Result<()> {
    let adapters = case.dir().join("one.xml");
    // Items without the name of a connection.
    let all = case.adapters()?;
    let (first, _) = all
        .split_once("<!-- One item for a whole")
        .context("a comment")?;
    fs::write(&adapters, format!("{first}</adapters_conf>"))?;
    let gateway = case.gateway_of(&adapters, any_port(), "")?;
    let server = format!("http://{}", gateway.address());
    let keys = [case.key("a"), case.key("b")];
    let example = fs::read_to_string(Path::new(EXAMPLES).join("index.html"))?;
    let (before, rest) = example.split_once("const keys = ").context("keys")?;
    let (_, after) = rest.split_once(';').context("the end of keys")?;
    let page = format!("{before}const keys = {};{after}", json!(keys));
    fs::write(case.dir().join("index.html"), page)?;
    fs::write(case.dir().join("module.html"), MODULE_PAGE)?;
    fs::write(case.dir().join("records.html"), RECORDS_PAGE)?;
    let module = Path::new(EXAMPLES).join("weir-events.js");
    fs::copy(module, case.dir().join("weir-events.js"))?;
    let site = Site::serve(case.dir())?;
    let base = format!("http://{}/", site.address);
    let url = format!("{base}index.html?server={server}");
    event_source(case, &url, &[&base, &server])?;
    for transport in ["", "&socket"] {
        let items = ["a", "b"].map(|name| format!("&item={}", case.item(name)));
        let url = format!(
            "{base}module.html?server={server}{}{transport}",
            items.concat()
        );
        let sockets = server.replace("http", "ws");
        follows(case, &url, &[&base, &server, &sockets])?;
    }
    let gateway = restarts(case, &url, gateway, &adapters)?;
    misses_nothing(case, &base, gateway, &adapters)
}

/// Returns the expression of the value that the example shows for an item.
fn shown(case: &Case<'_>, name: &str) -> String {
    let item = json!(case.item(name));
    format!("(rows.get({item}) ?? {{}}).textContent")
}

fn event_source(case: &Case<'_>, url: &str, own: &[&str]) -> Result<()> {
    let page = Page::open(case, url)?;
    page.until_is("status.textContent", "connected")?;
    for (name, text) in [
        ("a", "first"),
        ("b", HOSTILE),
        ("a", "gr\u{FC}n \u{732B}\nline"),
    ] {
        case.produce(name, text)?;
        page.until_is(&shown(case, name), text)?;
    }
    let markup = page.evaluate(MARKUP)?;
    ensure!(markup == 0, "{markup} elements from values");
    page.finish(own)
}

fn follows(case: &Case<'_>, url: &str, own: &[&str]) -> Result<()> {
    let page = Page::open(case, url)?;
    page.until_is("window.states.join()", "open")?;
    let value = |name| format!("window.shown[{}]", json!(case.item(name)));
    for (name, text) in [("a", "one"), ("b", HOSTILE), ("a", url)] {
        case.produce(name, text)?;
        page.until_is(&value(name), text)?;
    }
    page.evaluate("window.end()")?;
    page.finish(own)
}

/// `EventSource` connects again by itself after a restart of the gateway.
fn restarts(
    case: &Case<'_>,
    url: &str,
    gateway: GatewayProcess,
    adapters: &Path,
) -> Result<GatewayProcess> {
    let page = Page::open(case, url)?;
    page.until_is("status.textContent", "connected")?;
    case.produce("a", "before")?;
    page.until_is(&shown(case, "a"), "before")?;
    let address = gateway.address();
    ensure!(gateway.terminate()?.success(), "a clean shutdown");
    page.until("status.textContent", |text| text != "connected")?;
    let gateway = case.gateway_of(adapters, address, "")?;
    page.until_is("status.textContent", "connected")?;
    case.produce("a", "after")?;
    page.until_is(&shown(case, "a"), "after")?;
    Ok(gateway)
}

/// `EventSource` sends the id of its last event, so that records of the time without a gateway
/// follow in order.
fn misses_nothing(
    case: &Case<'_>,
    base: &str,
    gateway: GatewayProcess,
    adapters: &Path,
) -> Result<()> {
    let address = gateway.address();
    let item = case.item("a");
    let events =
        format!("http://{address}/sse?item={item}&mode=distinct&fields=value&snapshot=false");
    let events = events.replace('&', "%26");
    let page = Page::open(case, &format!("{base}records.html?events={events}"))?;
    page.until_is("window.state", "open")?;
    case.produce("a", "1")?;
    page.until_is("window.got.join()", "update 1")?;
    ensure!(gateway.terminate()?.success(), "a clean shutdown");
    page.until_is("window.state", "lost")?;
    case.produce("a", "2")?;
    case.produce("a", "3")?;
    let _gateway = case.gateway_of(adapters, address, "")?;
    page.until_is("window.got.join()", "update 1,update 2,update 3")
}
