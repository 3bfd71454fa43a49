//! Tokens of an identity provider: how each SDK sends them, and what it does at their end, without
//! keys, and after a revocation.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::json;
use weir_lab::identity::{IdentityProvider, Issuer, IssuerFault, TokenClaims};
use weir_lab::ports::free_port;

use super::driver::Driver;
use super::events::{DriverConfig, SdkEvent};
use super::gateway::GatewayProcess;
use super::sdk::Sdk;
use super::test_env::{Case, LOOK, TEST_TIMEOUT, any_port};

/// Seconds until a token expires that must not expire during a case.
pub(crate) const LONG_S: u64 = 3_600;
/// Seconds until a token expires whose end a case waits for; more than a client needs to start on a
/// busy machine.
const SHORT_S: u64 = 30;

/// The provider of all cases, started by the first one.
static PROVIDER: OnceLock<Result<IdentityProvider, String>> = OnceLock::new();

/// Returns an issuer of its own at the provider of all cases.
pub(crate) fn new_issuer() -> Result<Issuer<'static>> {
    let start = || IdentityProvider::start(&mut |_| {}, &AtomicBool::new(false));
    let provider = PROVIDER.get_or_init(|| start().map_err(|error| error.to_string()));
    let provider = provider.as_ref().map_err(|error| anyhow!("{error}"))?;
    Ok(provider.issuer("ES256")?)
}

/// Returns a configuration in which a client may see the items of its claim `keys`.
pub(crate) fn settings(issuer: &Issuer<'_>, source: &str) -> String {
    format!(
        "[auth]\nskew = \"1s\"\nsources = [\"{source}\"]\n[[auth.issuer]]\nissuer = \"{}\"\n\
         audience = \"weir\"\nkeys = \"discovery\"\nalgorithms = [\"ES256\"]\n[[authorize]]\n\
         name = \"own keys\"\nitems = [\"ltest-[key={{claims.keys}}]\"]\n",
        issuer.url()
    )
}

/// Returns a token for the item "a" of the case.
pub(crate) fn token(
    case: &Case<'_>,
    issuer: &Issuer<'_>,
    user: &str,
    lifetime_s: u64,
) -> Result<String> {
    let claims = json!({ "keys": [case.key("a")] });
    let claims = claims.as_object().cloned().context("an object")?;
    Ok(issuer.token(&TokenClaims {
        user,
        audience: "weir",
        lifetime_s,
        more: claims,
    })?)
}

fn config(case: &Case<'_>, gateway: &GatewayProcess, password: Option<&str>) -> DriverConfig {
    DriverConfig {
        password: password.map(str::to_owned),
        ..DriverConfig::new(gateway.address(), vec![case.raw(&["a"])])
    }
}

/// Checks that a client gets the updates of item "a" and none of item "b".
fn sees_own_items(case: &Case<'_>, client: &mut Driver) -> Result<()> {
    client.subscribed(&[0])?;
    client.subscribe(&case.raw(&["b"]))?;
    let code = client.subscription_error(1)?;
    ensure!(code == -2, "item b: {code}");
    case.send("b", Some("for others"))?;
    case.produce("a", "own")?;
    client.value(0, "own")
}

/// Checks that a client gets no session, and that the SDK does not try again.
fn is_refused(case: &Case<'_>, config: DriverConfig) -> Result<()> {
    let client = case.client_of(config)?;
    let code = client.server_error()?;
    ensure!(code == 1, "refused with {code}");
    Ok(())
}

/// Tokens as passwords, over WebSocket and HTTP. Missing, changed and foreign ones are rejected.
pub(crate) fn password(case: &Case<'_>) -> Result<()> {
    let issuer = new_issuer()?;
    let gateway = case.gateway_with(any_port(), &settings(&issuer, "password"))?;
    let token = token(case, &issuer, "anna", LONG_S)?;
    for transport in ["WS-STREAMING", "HTTP-STREAMING"] {
        let mut config = config(case, &gateway, Some(&token));
        config.transport = Some(transport);
        config.user = Some("anna".to_owned());
        sees_own_items(case, &mut case.client_of(config)?)?;
    }
    // The first character of the signature; the last one has bits without a meaning.
    let (message, signature) = token.rsplit_once('.').context("three parts")?;
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    let changed = format!("{message}.{first}{}", &signature[1..]);
    let foreign = self::token(case, &new_issuer()?, "anna", LONG_S)?;
    for bad in [None, Some(changed.as_str()), Some(foreign.as_str())] {
        is_refused(case, config(case, &gateway, bad))?;
    }
    let mut other_user = config(case, &gateway, Some(&token));
    other_user.user = Some("bob".to_owned());
    is_refused(case, other_user)
}

/// Tokens in the header `Authorization`, over WebSocket and HTTP. Browsers create the session over
/// HTTP.
pub(crate) fn header(case: &Case<'_>) -> Result<()> {
    let issuer = new_issuer()?;
    let gateway = case.gateway_with(any_port(), &settings(&issuer, "header"))?;
    let token = token(case, &issuer, "anna", LONG_S)?;
    let is_page = matches!(case.sdk(), Sdk::Web(..));
    for transport in [None, Some("HTTP-STREAMING")] {
        let headers = json!({ "Authorization": format!("Bearer {token}") });
        let mut config = config(case, &gateway, None).option("HttpExtraHeaders", headers);
        if is_page {
            config = config.option("HttpExtraHeadersOnSessionCreationOnly", true);
        }
        config.transport = transport;
        sees_own_items(case, &mut case.client_of(config)?)?;
    }
    // A password is not a source here.
    is_refused(case, config(case, &gateway, Some(&token)))
}

/// Tokens in a cookie, over WebSocket and HTTP.
pub(crate) fn cookie(case: &Case<'_>) -> Result<()> {
    let issuer = new_issuer()?;
    let gateway = case.gateway_with(any_port(), &settings(&issuer, "cookie:weir"))?;
    let token = token(case, &issuer, "anna", LONG_S)?;
    for transport in [None, Some("HTTP-STREAMING")] {
        let mut config = config(case, &gateway, None);
        config.cookie = Some(format!("weir={token}"));
        config.transport = transport;
        match case.sdk() {
            Sdk::Web(..) => config = config.option("CookieHandlingRequired", true),
            // Its HTTP library stores no cookies of addresses.
            Sdk::Python(..) => {
                config.server = format!("http://localhost:{}", gateway.address().port());
            }
            Sdk::Node(..) | Sdk::Java(..) => {}
        }
        sees_own_items(case, &mut case.client_of(config)?)?;
    }
    Ok(())
}

/// A token renewed within the session keeps it. Without that, the session ends: the SDK comes back
/// at once with the password that it has, and stops if that has expired.
pub(crate) fn expiry(case: &Case<'_>) -> Result<()> {
    let issuer = new_issuer()?;
    let gateway = case.gateway_with(any_port(), &settings(&issuer, "password"))?;
    let long = token(case, &issuer, "anna", LONG_S)?;
    let foreign = token(case, &issuer, "bob", LONG_S)?;
    // Each client has a token of its own, so that it need not wait for the start of the others.
    let start = || -> Result<Driver> {
        let short = token(case, &issuer, "anna", SHORT_S)?;
        let client = case.client_of(config(case, &gateway, Some(&short)))?;
        client.subscribed(&[0])?;
        Ok(client)
    };
    let stale = start()?;
    let mut renewed = start()?;
    renewed.password(&long)?;
    let mut kept = start()?;
    ensure!(refresh(&mut kept, &foreign)? == ("denied".to_owned(), Some(-10)));
    ensure!(refresh(&mut kept, &long)? == ("processed".to_owned(), None));

    renewed.fresh_session()?;
    stale.unsubscribed()?;
    let code = stale.server_error()?;
    ensure!(code == 1, "the stale token: {code}");
    case.produce("a", "later")?;
    renewed.value(0, "later")?;
    kept.value(0, "later")
}

/// Sends a token for the current session and returns the outcome with its code.
fn refresh(client: &mut Driver, token: &str) -> Result<(String, Option<i32>)> {
    client.message(token, Some("weir_auth"), true)?;
    client.wait("outcome of the renewal", |event| match event {
        SdkEvent::Message { outcome, code, .. } => Some((outcome.clone(), *code)),
        _ => None,
    })
}

/// Without the keys of its issuer, a token is neither accepted nor rejected: the SDK tries again
/// until the provider is back.
pub(crate) fn outage(case: &Case<'_>) -> Result<()> {
    let issuer = new_issuer()?;
    let token = token(case, &issuer, "anna", LONG_S)?;
    issuer.set_fault(IssuerFault::Refused)?;
    let listen = ([127, 0, 0, 1], free_port()?).into();
    let settings = settings(&issuer, "password");
    thread::scope(|scope| {
        // It is ready only with the keys.
        let gateway = scope.spawn(|| case.gateway_with(listen, &settings));
        let mut config = DriverConfig::new(listen, vec![case.raw(&["a"])]);
        config.password = Some(token);
        let mut client = case.client_of(config)?;
        let reported = wait_for_line(case.dir(), "Cause: 6 - ");
        // In any case, so that the gateway starts.
        issuer.set_fault(IssuerFault::None)?;
        let gateway = gateway.join().map_err(|_| anyhow!("no gateway"))??;
        reported?;
        sees_own_items(case, &mut client)?;
        drop(gateway);
        Ok(())
    })
}

/// Sessions of a revoked user end with code -10, and the SDK does not come back. Other users stay,
/// and a token that was issued later is accepted.
pub(crate) fn revocation(case: &Case<'_>) -> Result<()> {
    let issuer = new_issuer()?;
    let file = case.dir().join("sessions.token");
    fs::write(&file, "operators-0123456789-0123456789-0123")?;
    let calls = format!("[admin.sessions]\ntoken_file = \"{}\"\n", file.display());
    let settings = format!("{calls}{}", settings(&issuer, "password"));
    let gateway = case.gateway_with(any_port(), &settings)?;
    let start = |user: &str| -> Result<Driver> {
        let token = token(case, &issuer, user, LONG_S)?;
        let client = case.client_of(config(case, &gateway, Some(&token)))?;
        client.subscribed(&[0])?;
        Ok(client)
    };
    let (anna, bob) = (start("anna")?, start("bob")?);
    let admin = format!("http://{}", gateway.admin());
    let revoked = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["gateway", "sessions", "revoke", "--user", "anna"])
        .args(["--issuer", issuer.url(), "--admin", &admin, "--token-file"])
        .arg(&file)
        .output()?;
    ensure!(revoked.status.success(), "{revoked:?}");
    let code = anna.server_error()?;
    ensure!(code == -10, "revoked with {code}");
    case.produce("a", "later")?;
    bob.value(0, "later")
}

/// Waits until the debug log of the first SDK client of a case contains these words.
fn wait_for_line(dir: &Path, words: &str) -> Result<()> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let is_log = path.file_name().is_some_and(|name| {
                let name = name.to_string_lossy();
                name.starts_with("sdk-") && name.ends_with(".log")
            });
            if is_log && String::from_utf8_lossy(&fs::read(&path)?).contains(words) {
                return Ok(());
            }
        }
        ensure!(Instant::now() < deadline, "no \"{words}\" in the SDK's log");
        thread::sleep(LOOK);
    }
}
