//! Weir's pages in a real browser: that of `examples/`, and the dashboards.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use weir_kafka::{Admin, KafkaSettings};
use weir_proxy::{CliOverrides, Proxy, ProxyConfig};

use super::accessibility::{audit, press_on, reach, tab_order, type_into};
use super::events::{DriverConfig, Subscription};
use super::gateway::GatewayProcess;
use super::page::Page;
use super::test_env::{Case, LOOK, TEST_TIMEOUT, any_port};

/// Element that exists only if a name or value was parsed as markup.
pub(crate) const HOSTILE: &str = "<img src=x onerror=alert(1)><b id=bold>\"'&amp;</b>";
/// Elements that only [`HOSTILE`] would create.
pub(crate) const MARKUP: &str = "document.querySelectorAll('img, #bold').length";
/// Token of session administration.
const SESSIONS_TOKEN: &str = "operators-0123456789-0123456789-0123";
/// Window sizes of a desktop, a tablet and a phone.
pub(crate) const SIZES: [(u32, u32); 3] = [(1280, 900), (820, 1100), (390, 844)];
/// Width that the page needs.
pub(crate) const WIDTH: &str = "document.scrollingElement.scrollWidth";
const PAPER: &str = "getComputedStyle(document.body).backgroundColor";
const INK: &str = "getComputedStyle(document.body).color";

/// Rows change with the records of their keys.
pub(crate) fn example(case: &Case<'_>) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/browser/index.html");
    fs::copy(source, case.dir().join("index.html"))?;
    let (_, modules) = case.sdk().page_command().context("no browser")?;
    let link = case.dir().join("node_modules");
    symlink(modules, &link)?;
    let keys = [case.key("a"), case.key("b")];
    // As documented: pages of the gateway's host may connect, files may not.
    let site = Site::serve(case.dir())?;
    let base = format!("http://{}/", site.address);
    let server = format!("http://{}", case.shared().address());
    let url = format!("{base}index.html?server={server}&keys={}", keys.join(","));
    let page = Page::open(case, &url)?;
    page.until("document.getElementById('status').textContent", |status| {
        status
            .as_str()
            .is_some_and(|status| status.starts_with("CONNECTED:"))
    })?;
    let value = |row| format!("document.querySelectorAll('#rows tr')[{row}].cells[3].textContent");
    let waiting = page.evaluate(&value(0))?;
    ensure!(waiting == "waiting for a record", "{waiting}");
    // The page shows only records that are written after it has subscribed.
    page.until(&value(0), |shown| {
        shown == "first" || case.produce("a", "first").is_err()
    })?;
    for (name, row) in [("a", 0), ("b", 1), ("a", 0)] {
        for text in ["gr\u{FC}n \u{732B}", HOSTILE] {
            case.produce(name, text)?;
            page.until_is(&value(row), &text.chars().take(60).collect::<String>())?;
        }
        let key = page.evaluate(&format!("rows[{row}].cells[0].textContent"))?;
        ensure!(key == case.key(name), "{key}");
    }
    case.send("b", None)?;
    case.flush()?;
    page.until_is(&value(1), "(null)")?;
    let markup = page.evaluate(MARKUP)?;
    ensure!(markup == 0, "{markup} elements from values");
    views(case, &page)?;
    let sockets = server.replace("http", "ws");
    // The SDK runs timers in a worker, which it creates from a text.
    page.finish(&[&base, &server, &sockets, "blob:"])
}

/// The page of `weir gateway init`, opened as a file, shows values of the topic's keys as they
/// change.
pub(crate) fn init(case: &Case<'_>) -> Result<()> {
    const END: &str = "-init";
    let kafka = KafkaSettings::plaintext(case.bootstrap());
    Admin::connect(&kafka, TEST_TIMEOUT)?.create_topic(&case.topic(END), 2, 1, &[])?;
    let send = |key: &str, price: &str| -> Result<()> {
        let value = json!({ "price": price, "note": HOSTILE }).to_string();
        case.send_to(END, Some(key), Some(&value))?;
        case.flush()
    };
    for key in ["k1", "k2"] {
        send(key, "1")?;
    }
    let written = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args([
            "gateway",
            "init",
            "--bootstrap",
            case.bootstrap(),
            "--topic",
        ])
        .arg(case.topic(END))
        .arg("--output")
        .arg(case.dir())
        .output()?;
    ensure!(
        written.status.success(),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
    let config = case.dir().join("gateway.toml");
    let gateway = GatewayProcess::start(case.dir(), "init", None, Some(&config), any_port())?;
    let server = format!("ws://{}", gateway.address());
    let site = format!("file://{}", case.dir().join("index.html").display());
    let page = Page::open(case, &format!("{site}?gateway={server}"))?;
    let rows = "[...document.querySelectorAll('#rows tr')]";
    let cell = |key: &str, at: usize| {
        let name = format!("[key={key}]");
        format!(
            "{rows}.find((row) => row.cells[0].textContent.endsWith({})).cells[{at}].textContent",
            json!(name)
        )
    };
    for key in ["k1", "k2"] {
        page.until_is(&cell(key, 2), "1")?;
    }
    send("k2", "2.5")?;
    page.until_is(&cell("k2", 2), "2.5")?;
    page.until_is(&cell("k2", 1), HOSTILE)?;
    page.until_is(&cell("k1", 2), "1")?;
    let markup = page.evaluate(MARKUP)?;
    ensure!(markup == 0, "{markup} elements from values");
    views(case, &page)?;
    page.finish(&[&site, &server])
}

/// A web server for a directory; stopped when dropped.
pub(crate) struct Site {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Site {
    pub(crate) fn serve(dir: &Path) -> Result<Self> {
        let port = weir_lab::ports::free_port()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let child = Command::new("python3")
            .args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"])
            .arg(dir)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("python3 -m http.server did not start")?;
        let site = Self { child, address };
        let deadline = Instant::now() + TEST_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            ensure!(Instant::now() < deadline, "the web server is not ready");
            thread::sleep(LOOK);
        }
        Ok(site)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Values follow the clients, names are shown as text, and nothing is wider than the window.
pub(crate) fn dashboard(case: &Case<'_>) -> Result<()> {
    let escaped = HOSTILE
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;");
    let named = format!("data_provider name=\"{escaped}\"");
    let adapters = case
        .adapters()?
        .replacen("data_provider name=\"Whole\"", &named, 1);
    let file = case.dir().join("hostile.xml");
    fs::write(&file, adapters)?;
    let calls = format!("[admin.sessions]\ntoken = \"{SESSIONS_TOKEN}\"\n");
    let gateway = case.gateway_of(&file, any_port(), &calls)?;
    let site = format!("http://{}/", gateway.admin());
    let page = Page::open(case, &format!("{site}dashboard"))?;
    page.until_is("document.getElementById('status').textContent", "ready")?;
    page.until_is(&tile("Sessions"), "0")?;
    let link = page.evaluate("document.querySelector('#links a').getAttribute('href')")?;
    ensure!(link == "/try", "{link}");
    let table = "[...document.querySelectorAll('#connections td')].map((cell) => cell.textContent)";
    page.until(table, |cells| {
        cells
            .as_array()
            .is_some_and(|all| all.contains(&json!(HOSTILE)))
    })?;

    let forced = |transport, subscription| DriverConfig {
        transport: Some(transport),
        ..DriverConfig::new(gateway.address(), vec![subscription])
    };
    let mut first = case.client_of(forced("WS-STREAMING", case.raw(&["a"])))?;
    first.subscribed(&[0])?;
    page.until_is(&tile("Sessions"), "1")?;
    page.until_is(&legend("WebSocket"), "1")?;
    let second = case.client_of(forced("HTTP-POLLING", case.raw(&["a"])))?;
    second.subscribed(&[0])?;
    page.until_is(&tile("Sessions"), "2")?;
    page.until_is(&legend("HTTP polling"), "1")?;
    page.until_is(&legend("WebSocket"), "1")?;
    // An invalid item is refused, whatever its name.
    let hostile = Subscription {
        items: vec![HOSTILE.replace(' ', "/")],
        ..case.raw(&[])
    };
    first.subscribe(&hostile)?;
    first.subscription_error(1)?;

    lists_sessions(&page)?;
    let events = "document.getElementById('events').textContent";
    page.until(events, |text| {
        text.as_str().is_some_and(|text| text.contains("started"))
    })?;
    page.until(
        "document.querySelectorAll('#charts .event').length > 0",
        |is| is == true,
    )?;
    ensure!(
        page.evaluate("document.getElementById('problems').hidden")? == true,
        "no problem"
    );
    // The values change as long as records arrive.
    let mut number = 0;
    page.until(&tile("Updates out"), |shown| {
        let text = format!("{HOSTILE} {number}");
        number += 1;
        case.produce("a", &text).is_ok() && shown.as_str().is_some_and(|rate| rate != "0/s")
    })?;
    page.until_is(&tile("Updates out"), "0/s")?;
    first.disconnect()?;
    page.until_is(&tile("Sessions"), "1")?;
    page.until_is(&legend("WebSocket"), "0")?;
    let line = "document.querySelector('#charts .series').getAttribute('d').length";
    page.until(line, |length| length.as_u64() > Some(20))?;
    let topics = "[...document.querySelectorAll('#topics td:first-child')]\
                  .map((cell) => cell.textContent)";
    page.until(topics, |names| {
        let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
        names.contains(&json!(case.topic("")))
    })?;
    views(case, &page)?;
    keys(&page)?;
    let markup = page.evaluate(MARKUP)?;
    ensure!(markup == 0, "{markup} elements from names");
    page.finish(&[&site, "data:"])
}

/// The page lists topics and items and shows values as records arrive, also in all windows.
pub(crate) fn try_page(case: &Case<'_>) -> Result<()> {
    let file = case.dir().join("adapters.xml");
    fs::write(&file, case.adapters()?)?;
    // The page needs no origin of its own in the list.
    let origins = "allowed_origins = [\"null\"]\n";
    let gateway = case.gateway_of(&file, any_port(), origins)?;
    let site = format!("http://{}/", gateway.admin());
    let page = Page::open(case, &format!("{site}try"))?;
    page.until("document.getElementById('listed').textContent", |text| {
        text.as_str()
            .is_some_and(|text| text.contains(&case.topic("")))
    })?;
    let raw = case.raw(&["t"]);
    let choose = format!(
        "document.getElementById('connection').value = {}",
        json!(raw.data_adapter)
    );
    page.evaluate(&choose)?;
    type_into(&page, "#item", &raw.items[0])?;
    type_into(&page, "#fields", &raw.fields.join(", "))?;
    page.press("Enter")?;
    page.until_is("document.getElementById('status').textContent", "connected")?;
    let shown = "document.getElementById('values').textContent";
    page.until(shown, |text| {
        case.produce("t", HOSTILE).is_ok()
            && text.as_str().is_some_and(|text| text.contains(HOSTILE))
    })?;
    let markup = page.evaluate(MARKUP)?;
    ensure!(markup == 0, "{markup} elements from values");
    views(case, &page)?;
    tab_order(&page)?;
    // An item of the list fills the form; its parameter is typed next.
    press_on(&page, "#listed button", "Enter")?;
    page.until_is("document.activeElement.id", "item")?;
    page.until("document.getElementById('item').value", |item| {
        item.as_str().is_some_and(|item| item.ends_with("=]"))
    })?;
    press_on(&page, "#values button", " ")?;
    page.until_is(shown, "")?;
    let sockets = format!("ws://{}", gateway.address());
    page.finish(&[&site, "data:", &sockets])
}

/// Everything works with keys, and the keyboard stays where it is while values change.
fn keys(page: &Page) -> Result<()> {
    tab_order(page)?;
    let pressed = |name: &str| format!("document.querySelector('{name}').ariaPressed");
    press_on(page, "[data-minutes=\"5\"]", "Enter")?;
    page.until_is(&pressed("[data-minutes=\"5\"]"), "true")?;
    press_on(page, "#pause", " ")?;
    page.until_is(&pressed("#pause"), "true")?;
    page.press(" ")?;
    page.until_is(&pressed("#pause"), "false")?;
    press_on(page, "#charts", "ArrowLeft")?;
    page.until("document.querySelectorAll('.cursor').length", |lines| {
        lines.as_u64() > Some(1)
    })?;
    page.press("Escape")?;
    page.until("document.querySelectorAll('.cursor').length", |lines| {
        lines == 0
    })?;
    reach(page, "#tables > div")?;
    let drawn = page.evaluate("page.drawnTo")?;
    page.until("page.drawnTo", |now| *now != drawn)?;
    let stays = page.evaluate("document.activeElement.matches('#tables > div')")?;
    ensure!(stays == true, "new samples take the keyboard away");
    Ok(())
}

/// Sessions are listed with their token only, and hidden on request; all with the keyboard.
fn lists_sessions(page: &Page) -> Result<()> {
    let submit = |token: &str| {
        type_into(page, "#operator", token)?;
        page.press("Enter")
    };
    let rows = "document.querySelectorAll('#session-rows tr').length";
    let denied = "document.getElementById('denied').textContent";
    submit("")?;
    page.until_is(denied, "Enter the token.")?;
    ensure!(page.evaluate(rows)? == 0, "sessions without their token");
    submit(SESSIONS_TOKEN)?;
    page.until(rows, |count| count == 2)?;
    let transports = "[...document.querySelectorAll('#session-rows tr')]\
                      .map((row) => row.cells[4].textContent).sort().join()";
    page.until_is(transports, "http_polling,ws_streaming")?;
    press_on(page, "#forget", " ")?;
    page.until(rows, |count| count == 0)?;
    submit("")?;
    page.until_is(denied, "Enter the token.")?;
    submit(SESSIONS_TOKEN)?;
    page.until(rows, |count| count == 2)?;
    let slowest = "document.querySelectorAll('#slowest-rows tr').length";
    page.until(slowest, |count| count == 1)?;
    let top = "document.querySelector('#item-rows').rows[0].cells[2].textContent";
    page.until_is(top, "2").map(drop)
}

/// Values follow the clients of a proxy, the states of brokers are shown; nothing is wider than
/// the window.
pub(crate) fn proxy_dashboard(case: &Case<'_>) -> Result<()> {
    // Nothing listens on port 1: the second cluster is never ready.
    let config = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[cluster]]\nname = \"up\"\nupstream = [\"{}\"]\nlisten = \"127.0.0.1:0\"\n\
         [[cluster]]\nname = \"down\"\nupstream = [\"127.0.0.1:1\"]\nlisten = \"127.0.0.1:0\"\n",
        case.bootstrap()
    );
    let file = case.dir().join("proxy.toml");
    fs::write(&file, config)?;
    let config = ProxyConfig::load(Some(&file), &CliOverrides::default())?;
    let proxy = Proxy::start(config)?;
    let site = format!("http://{}/", proxy.admin_address());
    let page = Page::open(case, &format!("{site}dashboard"))?;
    // The tiles exist once the page has data.
    page.until_is("document.getElementById('status').textContent", "not ready")?;
    page.until_is(&tile("Connections"), "0")?;
    for (table, wanted) in [
        ("clusters", ["ready", "not ready"]),
        ("brokers", ["responds", "no response"]),
    ] {
        let cells = format!(
            "[...document.querySelectorAll('#{table} td')].map((cell) => cell.textContent)"
        );
        page.until(&cells, |cells| {
            let has = |state: &&str| {
                cells
                    .as_array()
                    .is_some_and(|all| all.contains(&json!(state)))
            };
            wanted.iter().all(has)
        })?;
    }
    let banner = "document.getElementById('problems').textContent";
    page.until(banner, |text| {
        let has = |part| text.as_str().is_some_and(|text| text.contains(part));
        has("broker of down (127.0.0.1:1): ") && has(", since ")
    })?;
    let (_, address) = proxy.addresses().next().context("a cluster")?;
    let client = TcpStream::connect(address)?;
    page.until_is(&tile("Connections"), "1")?;
    page.until_is(&legend("clients"), "1")?;
    press_on(&page, "#list-clients", "Enter")?;
    let states = "[...document.querySelectorAll('#client-rows tr')]\
                  .map((row) => row.cells[5].textContent).join()";
    page.until_is(states, "waiting")?;
    drop(client);
    page.until_is(&tile("Connections"), "0")?;
    views(case, &page)?;
    tab_order(&page)?;
    // The page asks for data until it is closed.
    page.finish(&[&site, "data:"])?;
    proxy.shut_down();
    Ok(())
}

/// Returns the value of a tile.
fn tile(label: &str) -> String {
    format!(
        "[...document.querySelectorAll('.tile')]\
         .find((tile) => tile.querySelector('.label').textContent === '{label}')\
         .querySelector('.value').textContent"
    )
}

/// Returns the value of a line of a chart.
fn legend(label: &str) -> String {
    format!(
        "[...document.querySelectorAll('.legend li')]\
         .find((entry) => entry.firstChild.nextSibling.textContent.trim() === '{label}')\
         .querySelector('b').textContent"
    )
}

/// All windows, light and dark: no overflow, colors that follow the scheme, and no finding of
/// axe-core. Saves screenshots.
pub(crate) fn views(case: &Case<'_>, page: &Page) -> Result<()> {
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        for size in SIZES {
            let picture = case.dir().join(format!("{scheme}-{}.png", size.0));
            page.view(size, scheme, &picture)?;
            page.until(WIDTH, |shown| {
                shown.as_u64().is_some_and(|most| most <= u64::from(size.0))
            })
            .with_context(|| format!("in a window of {size:?}"))?;
            audit(page).with_context(|| format!("{scheme}, {size:?}"))?;
        }
        let (paper, ink) = (
            lightness(&page.evaluate(PAPER)?)?,
            lightness(&page.evaluate(INK)?)?,
        );
        ensure!(
            (paper - ink).abs() > 0.5,
            "{scheme}: ink {ink} on paper {paper}"
        );
        papers.push(paper);
    }
    ensure!(
        papers[0] > 0.8 && papers[1] < 0.2,
        "light and dark: {papers:?}"
    );
    Ok(())
}

/// Returns the brightness from 0 to 1 of a color in the format of browsers, `rgb(18, 22, 28)`.
fn lightness(colour: &Value) -> Result<f64> {
    let text = colour.as_str().unwrap_or_default();
    let numbers = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let parts: Vec<f64> = numbers.filter_map(|part| part.parse().ok()).collect();
    ensure!(parts.len() == 3, "an opaque colour, not {text}");
    Ok(parts.iter().sum::<f64>() / (3.0 * 255.0))
}
