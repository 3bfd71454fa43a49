//! No log line, error or page contains a password, whatever goes wrong with a login.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::identities::{CredentialStore, SERVICE_PASSWORD, assert_hidden, guarded, service};
use super::logins::{UserStore, plain_as};
use super::support::*;

/// Parts of all passwords of this test.
const MARK: &str = "sEcReT-mArK";

static LINES: AtomicUsize = AtomicUsize::new(0);
static LEAKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the events of all levels that contain the mark.
struct Recorder;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Id::from_u64(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        LINES.fetch_add(1, Ordering::Relaxed);
        if text.0.contains(MARK) {
            LEAKS.lock().expect("no panic").push(text.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn record_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Recorder).expect("the only subscriber");
    });
}

#[test]
fn passwords_are_in_no_log_line_and_no_page() {
    record_log();
    let before = LINES.load(Ordering::Relaxed);
    let mut users = UserStore::new();
    let right = format!("client-{MARK}");
    users.set_user("alice", &right);
    let credentials = |password: &str| service("User:alice", "svc-a", password);
    let wrong = credentials(&format!("wrong-{MARK}"));
    let store = CredentialStore::new(&wrong);
    let audit = store.path().with_file_name("audit.log");
    let tables = store.table("swap") + &users.table("failed_delay_ms = 0");
    let tables = format!("[audit]\npath = {audit:?}\n---\n{tables}");
    let proxy = proxy_to(&guarded().secured, &tables);
    await_that("the proxy to be ready", || proxy.get().is_ready());
    let login = |name: &str, password: &str| {
        plain_as(&mut Raw::connect(proxy.address), name, password).error_code
    };
    // Wrong at the broker, wrong at the proxy, unknown, not mapped.
    assert_eq!(login("alice", &right), 58);
    assert_eq!(login("alice", &format!("other-{MARK}")), 58);
    assert_eq!(login("unknown", &right), 58);
    assert_eq!(login(USER, PASSWORD), 58);
    // Files with errors next to passwords.
    for broken in [
        format!("{wrong}sasl.password = \"{MARK}\"\n"),
        format!("{wrong}sasl.jaas.config = 'x required password=\"{MARK}\";'\n"),
    ] {
        store.write(&broken);
        proxy.get().reload_certificates();
        let error = proxy.get().reload().expect_err("a broken file").to_string();
        assert!(!error.contains(MARK), "{error}");
        assert!(!proxy.page("/reload").contains(MARK));
    }
    store.write(&credentials(SERVICE_PASSWORD));
    await_that("the right file", || {
        proxy.get().reload_certificates();
        login("alice", &right) == 0
    });
    let audit = std::fs::read_to_string(&audit).expect("a file");
    assert!(!audit.contains(MARK), "{audit}");
    assert_hidden(&proxy, &[&right]);
    assert!(LINES.load(Ordering::Relaxed) > before + 4);
    let leaks = LEAKS.lock().expect("no panic");
    assert!(leaks.is_empty(), "{leaks:#?}");
}
