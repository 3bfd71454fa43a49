//! Refused connections that librdkafka reports: failed logins and rejected certificates. It retries
//! both forever, so clients of this crate that must not wait ask here.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use weir_security::{KafkaSettings, SaslSettings, ScramHash};

use crate::connect_error::ConnectError;

/// Latest refusal of a client.
#[derive(Debug)]
pub(crate) struct Refusals {
    servers: String,
    mechanism: &'static str,
    latest: Mutex<Option<ConnectError>>,
    /// Connection that the broker closed as if it expected another security protocol.
    hint: Mutex<Option<ConnectError>>,
    /// Broker to which no connection was possible, and why.
    unreachable: Mutex<Option<ConnectError>>,
    /// Latest failure of the program that gets Kerberos tickets.
    kinit: Mutex<Option<(Instant, &'static str)>>,
}

impl Refusals {
    pub(crate) fn new(kafka: &KafkaSettings) -> Self {
        Self {
            servers: kafka.bootstrap_servers.clone(),
            mechanism: kafka
                .security
                .sasl
                .as_ref()
                .map_or("no mechanism", mechanism),
            latest: Mutex::default(),
            hint: Mutex::default(),
            unreachable: Mutex::default(),
            kinit: Mutex::default(),
        }
    }

    /// Stores and returns the refusal that an error of librdkafka describes, if it is one.
    pub(crate) fn note(&self, error: &KafkaError, reason: &str) -> Option<ConnectError> {
        let refusal = self.classify(error.rdkafka_error_code()?, reason)?;
        *lock(&self.latest) = Some(refusal.clone());
        Some(refusal)
    }

    /// Stores and returns the likely refusal in a line of the log. librdkafka does not report a
    /// connection without encryption to a listener with TLS as an error.
    pub(crate) fn note_log(&self, facility: &str, message: &str) -> Option<ConnectError> {
        if facility == "SASLREFRESH" && message.contains("refresh failed") {
            *lock(&self.kinit) = Some((Instant::now(), kinit_failure(message)));
        }
        if let Some(unreachable) = unreachable_in(facility, message) {
            *lock(&self.unreachable) = Some(unreachable);
            return None;
        }
        let mut hints = HINTS.iter().chain([&FIRST_REQUEST]);
        let mut is_hint = || hints.any(|hint| message.contains(hint));
        if facility != "FAIL" || !is_hint() {
            return None;
        }
        // The line starts with the name of the thread.
        let (broker, reason) = split_broker(message.split_once("]: ").map_or(message, |it| it.1));
        let hint = ConnectError::Tls {
            broker: broker.unwrap_or(&self.servers).to_owned(),
            reason: format!("the broker closed the connection before it was usable ({reason})"),
        };
        *lock(&self.hint) = Some(hint.clone());
        Some(hint)
    }

    /// Adds a failure of kinit to the reason of a failed login, which only says that there is no
    /// ticket. kinit runs every minute.
    fn with_kinit_failure(&self, reason: &str) -> String {
        let failure = *lock(&self.kinit);
        let failure = failure.filter(|(at, _)| at.elapsed() < KINIT_PERIOD);
        failure.map_or_else(
            || reason.to_owned(),
            |(_, text)| format!("{text} ({reason})"),
        )
    }

    /// Returns the latest refusal.
    pub(crate) fn latest(&self) -> Option<ConnectError> {
        lock(&self.latest).clone()
    }

    /// Returns the latest refusal or, after a timeout, the likely one, or why no broker responds.
    pub(crate) fn likely(&self) -> Option<ConnectError> {
        let latest = self.latest().or_else(|| lock(&self.hint).clone());
        latest.or_else(|| self.unreachable())
    }

    /// Returns why no connection was possible, the last time that one was not.
    pub(crate) fn unreachable(&self) -> Option<ConnectError> {
        lock(&self.unreachable).clone()
    }

    fn classify(&self, code: RDKafkaErrorCode, reason: &str) -> Option<ConnectError> {
        let (broker, reason) = split_broker(reason);
        let broker = broker.unwrap_or(&self.servers);
        let tls = || ConnectError::Tls {
            broker: broker.to_owned(),
            reason: reason.to_owned(),
        };
        match code {
            RDKafkaErrorCode::Authentication => Some(ConnectError::Login {
                broker: broker.to_owned(),
                mechanism: self.mechanism.to_owned(),
                reason: self.with_kinit_failure(reason),
            }),
            RDKafkaErrorCode::SSL => Some(tls()),
            // With TLS 1.3, a broker rejects the client's certificate after the handshake. A
            // connection that the other side closes in a handshake has another security protocol.
            RDKafkaErrorCode::BrokerTransportFailure => {
                let is_hint = HINTS.iter().any(|hint| reason.contains(hint));
                (is_hint || reason.contains("alert")).then(tls)
            }
            _ => None,
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the broker and the reason of a log line about a connection that was not possible.
pub(crate) fn unreachable_in(facility: &str, message: &str) -> Option<ConnectError> {
    if facility != "FAIL" {
        return None;
    }
    let text = message.split_once("]: ").map_or(message, |it| it.1);
    let (broker, text) = split_broker(text);
    let reason = match text.strip_prefix("Connect to ") {
        Some(rest) => rest.split_once(" failed: ")?.1,
        None => {
            text.strip_prefix("Failed to resolve '")?
                .split_once("': ")?
                .1
        }
    };
    let reason = match reason {
        "Connection refused" => "connection refused".to_owned(),
        "Name or service not known" => "host name not found".to_owned(),
        other => other.to_lowercase(),
    };
    Some(ConnectError::Unreachable {
        broker: broker?.to_owned(),
        reason,
    })
}

/// Returns the reason why kinit failed, from a line that ends with its exit code.
fn kinit_failure(message: &str) -> &'static str {
    let code = message
        .rsplit_once("exited with code ")
        .map(|(_, code)| code.trim());
    match code {
        Some("124") => "kinit got no response from the KDC within 10 s",
        Some("127") => "kinit is not installed; Debian: krb5-user",
        _ => {
            "kinit got no ticket: check principal, key tab and KDC; its message is on the standard \
             error of this process"
        }
    }
}

/// Returns the SASL name of the mechanism.
pub(crate) fn mechanism(sasl: &SaslSettings) -> &'static str {
    match sasl {
        SaslSettings::Plain(_) => "PLAIN",
        SaslSettings::Scram(ScramHash::Sha256, _) => "SCRAM-SHA-256",
        SaslSettings::Scram(ScramHash::Sha512, _) => "SCRAM-SHA-512",
        SaslSettings::OAuthBearer(_) => "OAUTHBEARER",
        SaslSettings::Kerberos(_) => "GSSAPI",
        SaslSettings::AwsMskIam(_) => "AWS_MSK_IAM",
    }
}

/// Splits `sasl_ssl://host:9093/bootstrap: text` into `host:9093` and the text without the state
/// that librdkafka appends.
fn split_broker(reason: &str) -> (Option<&str>, &str) {
    let Some((name, text)) = reason.split_once(": ") else {
        return (None, reason);
    };
    let address = name.split_once("://").map_or(name, |(_, address)| address);
    let Some((address, _)) = address.rsplit_once('/').filter(|it| it.0.contains(':')) else {
        return (None, reason);
    };
    let text = text.rsplit_once(" (after ").map_or(text, |(text, _)| text);
    (Some(address), text)
}

/// State of a connection whose first request has no response yet. A listener with TLS closes it.
const FIRST_REQUEST: &str = "in state APIVERSION_QUERY";
/// Time for which a failure of kinit is the latest one.
const KINIT_PERIOD: Duration = Duration::from_secs(75);
const HINTS: [&str; 3] = [
    "connecting to a PLAINTEXT broker listener",
    "connecting to a SSL listener",
    "might require SASL authentication",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: RDKafkaErrorCode, reason: &str) -> Option<String> {
        let refusals = Refusals::new(&KafkaSettings::plaintext("a:1"));
        let noted = refusals.note(&KafkaError::Global(code), reason);
        assert_eq!(noted, refusals.latest());
        noted.map(|error| error.to_string())
    }

    #[test]
    fn refusals_name_broker_and_reason() {
        let text = "sasl_ssl://kafka:9093/bootstrap: SASL authentication error: Authentication \
                    failed (after 312ms in state AUTH_REQ)";
        let login = refusal(RDKafkaErrorCode::Authentication, text).expect("refusal");
        assert_eq!(
            login,
            "broker kafka:9093: login with no mechanism failed: SASL authentication error: \
             Authentication failed; check the credentials"
        );
        let text =
            "ssl://[::1]:9093/1: SSL handshake failed: error:0A000086 (after 2ms in state S)";
        let tls = refusal(RDKafkaErrorCode::SSL, text).expect("refusal");
        assert!(
            tls.starts_with("broker [::1]:9093: TLS handshake failed: SSL handshake"),
            "{tls}"
        );
        let alert = "ssl://a:1/1: Receive failed: tlsv13 alert certificate required";
        assert!(refusal(RDKafkaErrorCode::BrokerTransportFailure, alert).is_some());
        let plain = "a:1/bootstrap: Disconnected";
        assert_eq!(
            refusal(RDKafkaErrorCode::BrokerTransportFailure, plain),
            None
        );
        assert_eq!(
            refusal(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down"),
            None
        );
    }

    #[test]
    fn log_lines_about_unreachable_brokers_are_in_plain_words() {
        let words = |text: &str| {
            let refusals = Refusals::new(&KafkaSettings::plaintext("a:1"));
            assert_eq!(refusals.note_log("FAIL", text), None);
            assert_eq!(refusals.likely(), refusals.unreachable());
            refusals.unreachable().map(|error| error.to_string())
        };
        let refused = "[thrd:localhost:1/bootstrap]: localhost:1/bootstrap: Connect to \
                       ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT, 1 \
                       identical error(s) suppressed)";
        let expected = "no broker responds at localhost:1 (connection refused)";
        assert_eq!(words(refused).as_deref(), Some(expected));
        let unknown = "[thrd:sasl_ssl://no.invalid:9092/bootstrap]: \
                       sasl_ssl://no.invalid:9092/bootstrap: Failed to resolve 'no.invalid:9092': \
                       Name or service not known (after 1ms in state CONNECT)";
        let expected = "no broker responds at no.invalid:9092 (host name not found)";
        assert_eq!(words(unknown).as_deref(), Some(expected));
        let other = "[thrd:a:1/1]: a:1/1: Receive failed: broken (after 1ms in state UP)";
        assert_eq!(words(other), None);
    }

    #[test]
    fn failed_kinit_is_the_reason_of_a_failed_login() {
        let refusals = Refusals::new(&KafkaSettings::plaintext("a:1"));
        let failed = |code: &str| {
            let text = format!(
                "[thrd:main]: Kerberos ticket refresh failed: timeout 10 kinit -k -t \"/k\" p: \
                 exited with code {code}"
            );
            assert_eq!(refusals.note_log("SASLREFRESH", &text), None);
            let error = KafkaError::Global(RDKafkaErrorCode::Authentication);
            let noted = refusals.note(&error, "a:1/bootstrap: no credentials");
            noted.expect("a refusal").to_string()
        };
        assert!(failed("1").contains("failed: kinit got no ticket: check principal"));
        assert!(failed("124").contains("no response from the KDC within 10 s (no credentials)"));
        assert!(failed("127").contains("krb5-user"));
    }

    #[test]
    fn log_lines_about_another_protocol_are_hints() {
        let refusals = Refusals::new(&KafkaSettings::plaintext("a:1"));
        let text = "[thrd:b:2/bootstrap]: b:2/bootstrap: Disconnected while requesting ApiVersion: \
                    might be caused by incorrect security.protocol configuration (connecting to a \
                    SSL listener?) (after 5ms in state APIVERSION_QUERY)";
        assert_eq!(refusals.note_log("ERROR", text), None);
        let hint = refusals.note_log("FAIL", text).expect("hint").to_string();
        assert!(
            hint.starts_with("broker b:2: TLS handshake failed: the broker closed"),
            "{hint}"
        );
        assert_eq!(
            (refusals.latest(), refusals.likely().is_some()),
            (None, true)
        );
        assert_eq!(
            refusals.note_log("FAIL", "[thrd:b:2/1]: b:2/1: Disconnected"),
            None
        );
    }

    #[test]
    fn reasons_without_a_broker_stay_unchanged() {
        assert_eq!(split_broker("no separator"), (None, "no separator"));
        assert_eq!(split_broker("other: text"), (None, "other: text"));
        let token = refusal(RDKafkaErrorCode::Authentication, "no token").expect("refusal");
        assert!(token.starts_with("broker a:1: login"), "{token}");
    }
}
