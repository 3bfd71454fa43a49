//! Cases about TLS, headers and cookies of the application, and pages of other origins.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::driver::Driver;
use super::events::{DriverConfig, SdkEvent};
use super::modes::{MERGE, all_modes, in_mode};
use super::proxy::Proxy;
use super::sdk::{Sdk, certificates};
use super::test_env::{Case, any_port};

/// Every transport over TLS, with a certificate of a CA that only the SDK trusts.
pub(crate) fn tls(case: &Case<'_>) -> Result<()> {
    let file = |name: &str| certificates().join(name).display().to_string();
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let settings = format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    let gateway = case.gateway_with(any_port(), &settings)?;
    let mut client = case.client_of(DriverConfig {
        server: format!("https://{}", gateway.address()),
        transport: Some("WS-STREAMING"),
        ..DriverConfig::new(gateway.address(), all_modes(case))
    })?;
    client.status("CONNECTED:WS-STREAMING")?;
    client.subscribed(&[0, 1, 2])?;
    // Checked before the client changes its transport: then it may close a connection of which it
    // has not completed the handshake.
    gateway.wait_counted("weir_gateway_tls_handshakes_total")?;
    ensure!(gateway.metric("weir_gateway_tls_failures_total")? == 0);
    values(case, &client, true)?;
    for transport in ["HTTP-STREAMING", "HTTP-POLLING", "WS-POLLING"] {
        client.option("ForcedTransport", transport)?;
        client.status(&format!("CONNECTED:{transport}"))?;
        values(case, &client, false).with_context(|| format!("over {transport}"))?;
    }
    Ok(())
}

/// Short and long values in all modes; the first one is a snapshot in modes that have one.
fn values(case: &Case<'_>, client: &Driver, mut is_first: bool) -> Result<()> {
    let long = "\u{65E5}\u{672C}|".repeat(5_000);
    for value in ["one", &long, ""] {
        case.produce("a", value)?;
        let mut subs = Vec::new();
        for update in client.updates(3)? {
            ensure!(
                update.value("value") == Some(value)
                    && update.snapshot == (is_first && update.sub == MERGE),
                "wanted {value:?}: {update:?}"
            );
            subs.push(update.sub);
        }
        subs.sort_unstable();
        ensure!(subs == [0, 1, 2], "{subs:?}");
        is_first = false;
    }
    Ok(())
}

/// The gateway receives headers of the application. A page needs a preflight request, and sends
/// cookies if configured. A page cannot set WebSocket headers, so its SDK uses HTTP.
pub(crate) fn extra_headers(case: &Case<'_>) -> Result<()> {
    let proxy = Proxy::start(case.shared().address())?;
    let is_page = matches!(case.sdk(), Sdk::Web(..));
    let mut config = DriverConfig {
        cookie: is_page.then(|| "conformance=crumbs".to_owned()),
        ..DriverConfig::new(proxy.address(), vec![in_mode(case, "MERGE", "a")])
    };
    config = config.option("HttpExtraHeaders", json!({ "X-Conformance": "sent" }));
    if is_page {
        config = config.option("CookieHandlingRequired", true);
    }
    let client = case.client_of(config)?;
    client.subscribed(&[0])?;
    for value in ["one", "two"] {
        case.produce("a", value)?;
        client.value(0, value)?;
    }
    let recorded = proxy.recorded();
    ensure!(recorded.contains("x-conformance: sent"), "{recorded}");
    if is_page {
        for words in [
            "options /lightstreamer/create_session.txt",
            "access-control-request-headers: x-conformance",
            "cookie: conformance=crumbs",
        ] {
            ensure!(recorded.contains(words), "no \"{words}\" in: {recorded}");
        }
    }
    Ok(())
}

/// Pages of origins that are not allowed are rejected, programs are not. The page connects as soon
/// as its origin is allowed.
pub(crate) fn origins(case: &Case<'_>) -> Result<()> {
    let settings = "allowed_origins = [\"https://app.example.com\"]\n";
    let gateway = case.gateway_with(any_port(), settings)?;
    let address = gateway.address();
    let client = case.client_of(DriverConfig::new(address, vec![case.raw(&["a"])]))?;
    if !matches!(case.sdk(), Sdk::Web(..)) {
        client.subscribed(&[0])?;
        case.produce("a", "for a program")?;
        return client.value(0, "for a program");
    }
    until_refused(&client)?;
    gateway.wait_counted("weir_gateway_limit_hits_total")?;
    let sessions = gateway.metric("weir_gateway_sessions_created_total")?;
    ensure!(
        sessions == 0,
        "{sessions} sessions of a page from elsewhere"
    );
    gateway.kill()?;
    let _gateway = case.gateway(address)?;
    client.subscribed(&[0])?;
    case.produce("a", "for a page")?;
    client.value(0, "for a page")
}

/// Waits until the first attempt of the SDK has failed. It must not have been connected before.
fn until_refused(client: &Driver) -> Result<()> {
    let mut statuses = Vec::new();
    client.wait("refusal", |event| match event {
        SdkEvent::Status { status } if status == "DISCONNECTED:WILL-RETRY" => Some(()),
        SdkEvent::Status { status } => {
            statuses.push(status.clone());
            None
        }
        _ => None,
    })?;
    let let_in = statuses.iter().any(|one| one.starts_with("CONNECTED:"));
    ensure!(!let_in, "{statuses:?}");
    Ok(())
}
