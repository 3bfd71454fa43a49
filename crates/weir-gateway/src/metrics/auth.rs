//! Metrics of identities and rules. No label names a user.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use weir_net::admin::MetricKind;

use weir_access::Authenticator;

/// Writes the metrics of an authenticator.
pub(super) fn encode(
    auth: &Authenticator,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let counters = &auth.counters;
    let identified = counters.by_outcome().into_iter();
    let identified = identified.map(|((source, outcome, reason), count)| {
        let labels = [("source", source), ("outcome", outcome), ("reason", reason)];
        (
            labels
                .map(|(name, value)| (name, value.to_owned()))
                .to_vec(),
            count,
        )
    });
    let help = "Identifications of clients, by source and outcome.";
    family(
        encoder,
        MetricKind::Counter,
        "weir_gateway_auth",
        help,
        identified,
    )?;
    let sessions = counters
        .sessions()
        .map(|(auth, count)| one("auth", auth, count));
    let help = "Open sessions, by how their clients were identified.";
    family(
        encoder,
        MetricKind::Gauge,
        "weir_gateway_sessions_by_auth",
        help,
        sessions,
    )?;
    let ended = counters
        .ended()
        .map(|(reason, count)| one("reason", reason, count));
    let help = "Sessions ended because they lost their rights.";
    family(
        encoder,
        MetricKind::Counter,
        "weir_gateway_sessions_ended",
        help,
        ended,
    )?;
    let decided = auth.decisions().map(|(rule, outcome, count)| {
        let labels = [("rule", rule), ("outcome", outcome)];
        (
            labels
                .map(|(name, value)| (name, value.to_owned()))
                .to_vec(),
            count,
        )
    });
    let help = "Decisions about subscribed items, by the rule that decided.";
    family(
        encoder,
        MetricKind::Counter,
        "weir_gateway_authorize",
        help,
        decided,
    )?;
    let refreshed = std::iter::once((Vec::new(), counters.tokens_refreshed()));
    let help = "Tokens renewed within a session.";
    family(
        encoder,
        MetricKind::Counter,
        "weir_gateway_tokens_refreshed",
        help,
        refreshed,
    )?;
    let revocations = std::iter::once((Vec::new(), auth.revocation_count() as u64));
    let help = "Revocations whose tokens have not expired.";
    family(
        encoder,
        MetricKind::Gauge,
        "weir_gateway_revocations",
        help,
        revocations,
    )?;
    encode_keys(auth, encoder)
}

fn encode_keys(
    auth: &Authenticator,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let issuers = auth.key_status();
    let keys = issuers
        .iter()
        .map(|one| issuer(&one.issuer, one.keys as u64));
    let help = "Valid keys of an issuer.";
    family(
        encoder,
        MetricKind::Gauge,
        "weir_gateway_jwks_keys",
        help,
        keys,
    )?;
    let aged = issuers.iter().filter_map(|one| Some((one, one.age_ms?)));
    let ages = aged.map(|(one, age_ms)| issuer(&one.issuer, age_ms / 1_000));
    let help = "Time since the keys of an issuer were fetched.";
    family(
        encoder,
        MetricKind::Gauge,
        "weir_gateway_jwks_age_seconds",
        help,
        ages,
    )?;
    let refreshes = issuers.iter().flat_map(|one| {
        [("success", one.refreshed), ("failure", one.failed)].map(|(outcome, count)| {
            let (mut labels, count) = issuer(&one.issuer, count);
            labels.push(("outcome", outcome.to_owned()));
            (labels, count)
        })
    });
    let help = "Attempts to fetch or read the keys of an issuer.";
    family(
        encoder,
        MetricKind::Counter,
        "weir_gateway_jwks_refreshes",
        help,
        refreshes,
    )
}

/// Labels of a value, and the value.
type Labelled = (Vec<(&'static str, String)>, u64);

fn one(name: &'static str, value: &str, count: u64) -> Labelled {
    (vec![(name, value.to_owned())], count)
}

fn issuer(name: &str, count: u64) -> Labelled {
    one("issuer", name, count)
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    kind: MetricKind,
    name: &str,
    help: &str,
    values: impl Iterator<Item = Labelled>,
) -> Result<(), fmt::Error> {
    let mut described = encoder.encode_descriptor(name, help, None, kind.metric_type())?;
    for (labels, value) in values {
        kind.encode(value, described.encode_family(&labels.as_slice())?)?;
    }
    Ok(())
}
