use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::registry::client::{RegistryLogin, RegistrySettings};
use crate::registry::fake::{FakeRegistry, Reaction};

const WAIT: Duration = Duration::from_secs(30);

/// Sends each result as a text.
struct TextSink(Mutex<Sender<String>>);

impl TextSink {
    fn send(&self, text: String) {
        self.0
            .lock()
            .expect("not poisoned")
            .send(text)
            .expect("a receiver");
    }
}

impl SchemaSink for TextSink {
    fn found(&self, id: &RegistryId, schema: &RegisteredSchema) -> Result<(), UnusableSchema> {
        if schema.text == "bad" {
            return Err(UnusableSchema("not a schema".to_owned()));
        }
        self.send(format!("found {id} {}", schema.text));
        Ok(())
    }

    fn failed(&self, id: &RegistryId, reason: &str) {
        self.send(format!("failed {id} {reason}"));
    }

    fn expired(&self, id: &RegistryId) {
        self.send(format!("expired {id}"));
    }
}

fn start(url: &str, files: Option<FileCache>, wait: Duration) -> (Lookups, Receiver<String>) {
    let client = RegistryClient::new(&RegistrySettings {
        url: url.to_owned(),
        login: RegistryLogin::None,
        tls: None,
        request_timeout: Duration::from_secs(20),
    });
    let limits = LookupLimits {
        wait,
        retry_after: Duration::from_millis(50),
    };
    let (sender, results) = channel();
    let sink = Arc::new(TextSink(Mutex::new(sender)));
    let lookups = Lookups::start(client.expect("valid settings"), files, limits, sink);
    (lookups.expect("threads"), results)
}

fn next(results: &Receiver<String>) -> String {
    results.recv_timeout(WAIT).expect("a result")
}

fn id(number: i32) -> RegistryId {
    RegistryId::Number(number)
}

fn schema(text: &str) -> Reaction {
    Reaction::Respond(200, format!(r#"{{"schema": "{text}"}}"#))
}

#[test]
fn unavailable_registry_is_asked_again() {
    let failures = AtomicU64::new(0);
    let registry = FakeRegistry::start(move |_| match failures.fetch_add(1, Ordering::Relaxed) {
        0 => Reaction::Respond(500, String::new()),
        1 => Reaction::Bytes(Vec::new()),
        2 => Reaction::Respond(404, String::new()),
        _ => schema("x"),
    });
    let (lookups, results) = start(&registry.url(), None, WAIT);
    for _ in 0..10 {
        lookups.request(&id(1));
    }
    assert_eq!(next(&results), "found 1 x");
    let counters = lookups.counters();
    assert_eq!(counters.requests.load(Ordering::Relaxed), 4);
    assert_eq!(counters.failures.load(Ordering::Relaxed), 3);
    assert_eq!(registry.seen().len(), 4);
}

#[test]
fn given_up_id_expires_and_is_asked_again() {
    let known = Arc::new(AtomicU64::new(0));
    let is_known = Arc::clone(&known);
    let registry = FakeRegistry::start(move |_| match is_known.load(Ordering::Relaxed) {
        0 => Reaction::Respond(404, String::new()),
        _ => schema("x"),
    });
    let (lookups, results) = start(&registry.url(), None, Duration::ZERO);
    lookups.request(&id(1));
    assert!(next(&results).starts_with("failed 1 http://"));
    assert_eq!(next(&results), "expired 1");
    assert_eq!(lookups.counters().unknown_ids.load(Ordering::Relaxed), 1);
    known.store(1, Ordering::Relaxed);
    lookups.request(&id(1));
    assert_eq!(next(&results), "found 1 x");
}

#[test]
fn unusable_schema_is_not_asked_for_again() {
    let registry = FakeRegistry::start(|_| schema("bad"));
    let (lookups, results) = start(&registry.url(), None, WAIT);
    lookups.request(&id(1));
    assert_eq!(next(&results), "failed 1 not a schema");
    assert_eq!(registry.seen().len(), 1);
}

#[test]
fn slow_id_does_not_delay_others() {
    let registry = FakeRegistry::start(|request| match request.target.ends_with("/1") {
        true => Reaction::Silence,
        false => schema("x"),
    });
    let (lookups, results) = start(&registry.url(), None, WAIT);
    lookups.request(&id(1));
    lookups.request(&id(2));
    assert_eq!(next(&results), "found 2 x");
}

#[test]
fn stored_schemas_are_used_without_registry() {
    let directory = tempfile::tempdir().expect("a directory");
    let registry = FakeRegistry::start(|_| schema("x"));
    let url = registry.url();
    let files = || Some(FileCache::open(directory.path(), &url).expect("a cache"));
    let (lookups, results) = start(&url, files(), WAIT);
    lookups.request(&id(1));
    assert_eq!(next(&results), "found 1 x");
    drop(lookups);
    let (lookups, results) = start(&url, files(), WAIT);
    lookups.request(&id(1));
    assert_eq!(next(&results), "found 1 x");
    assert_eq!(lookups.counters().from_files.load(Ordering::Relaxed), 1);
    assert_eq!(registry.seen().len(), 1);
}
