//! Verification of tokens with key sets as an issuer publishes them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_identity::config::{AuthConfig, RawAuth};
use weir_identity::keys::{KeySet, discovered_keys_url, discovery_url};
use weir_identity::token::{IdentifiedClient, TokenError, TokenVerifier};
use weir_identity::{Algorithm, AlgorithmSet, SafeUrl};
use weir_lab::LabError;

/// Audience of all tokens.
pub(crate) const AUDIENCE: &str = "weir";

/// Returns a tool of the test, or prints why this machine cannot run it. A failed download is an
/// error.
pub(crate) fn unless_missing<T>(tool: Result<T, LabError>) -> Option<T> {
    match tool {
        Err(error @ (LabError::MissingTool { .. } | LabError::OldTool { .. })) => {
            skipped(&error.to_string());
            None
        }
        tool => Some(tool.unwrap()),
    }
}

/// Prints that a test does not run.
pub(crate) fn skipped(reason: &str) {
    // The harness captures only the macros. A closed terminal is not a failure.
    let _ = writeln!(std::io::stderr(), "\nskipped: {reason}");
}

/// Returns all algorithms of key sets.
pub(crate) fn all_public() -> AlgorithmSet {
    let all = Algorithm::ALL.into_iter();
    all.filter(|one| *one != Algorithm::Hs256).collect()
}

/// Returns the verifier of one issuer; `more` are further lines of its section.
pub(crate) fn verifier(issuer: &str, user_claim: &str, more: &str) -> TokenVerifier {
    let text = format!(
        "user_claim = \"{user_claim}\"\n[[issuer]]\nissuer = \"{issuer}\"\n\
         audience = [\"{AUDIENCE}\"]\n{more}"
    );
    let raw: RawAuth = toml::from_str(&text).unwrap();
    TokenVerifier::new(&AuthConfig::new(&raw).unwrap())
}

/// Verifies a token of an issuer at the present time, with the keys that the issuer publishes.
pub(crate) fn verify(
    issuer: &str,
    user_claim: &str,
    keys: KeySet,
    token: &str,
) -> Result<IdentifiedClient, TokenError> {
    let names: Vec<_> = all_public().iter().map(|one| one.name()).collect();
    let more = format!("keys = \"discovery\"\nalgorithms = {names:?}\n");
    let keys = [Some(Arc::new(keys))];
    verifier(issuer, user_claim, &more).verify(token, &keys, now_ms())
}

/// Fetches the key set of an issuer, found by discovery.
pub(crate) fn published_keys(issuer: &str) -> KeySet {
    let issuer_url = SafeUrl::parse(issuer).unwrap();
    let document = get(discovery_url(&issuer_url).as_str());
    let url = discovered_keys_url(&document, issuer).unwrap();
    KeySet::parse(&get(url.as_str()), all_public()).unwrap()
}

/// Returns the body of a document on this machine.
fn get(url: &str) -> Vec<u8> {
    let (authority, path) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut socket = TcpStream::connect(authority).unwrap();
    socket.set_read_timeout(Some(REQUEST_TIMEOUT)).unwrap();
    write!(socket, "GET /{path} HTTP/1.0\r\nHost: {authority}\r\n\r\n").unwrap();
    let mut response = Vec::new();
    socket.read_to_end(&mut response).unwrap();
    let end = response
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap();
    let status = response.get(8..13);
    assert_eq!(status, Some(&b" 200 "[..]), "{url}");
    response.split_off(end + 4)
}

/// Returns the present time.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
