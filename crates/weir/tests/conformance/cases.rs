//! The list of cases. Each runs against every SDK; an `Err` is its failure.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::command;
use super::diffs;
use super::event_pages;
use super::events::{DriverConfig, Subscription};
use super::identity;
use super::messages;
use super::modes;
use super::pacing;
use super::pages;
use super::report_page;
use super::sdk::is_old;
use super::secure;
use super::site_page;
use super::test_env::{Case, any_port};
use super::transports;

/// The function of a case.
pub(crate) type Run = fn(&Case<'_>) -> Result<()>;

/// Slow cases come first; they mostly wait.
const CASES: [(&str, Run); 55] = [
    (BROKER_RESTART, modes::broker_restart),
    ("modes_gateway_restart", modes::gateway_restart),
    ("killed", killed),
    ("identity_outage", identity::outage),
    ("identity_expiry", identity::expiry),
    ("recovery_defaults", transports::recovery_defaults),
    ("recovery_ws_streaming", transports::recovery_ws_streaming),
    ("recovery_ws_polling", transports::recovery_ws_polling),
    (
        "recovery_http_streaming",
        transports::recovery_http_streaming,
    ),
    ("recovery_http_polling", transports::recovery_http_polling),
    ("idle_probe", idle_probe),
    ("restart_drain", restart_drain),
    ("raw_many", raw_many),
    ("raw_live", raw_live),
    ("raw_nulls", raw_nulls),
    ("unsubscribe", unsubscribe),
    ("two_subscriptions", two_subscriptions),
    ("unknown_adapter_set", unknown_adapter_set),
    ("unknown_data_adapter", unknown_data_adapter),
    ("bad_item", bad_item),
    ("unmatched_item", unmatched_item),
    ("unmapped_field", unmapped_field),
    ("message_refused", messages::refused),
    ("message_delivered", messages::delivered),
    ("sdk_disconnect", sdk_disconnect),
    ("merge_live", modes::merge_live),
    ("merge_snapshot", modes::merge_snapshot),
    ("merge_nulls", modes::merge_nulls),
    ("distinct_live", modes::distinct_live),
    ("two_gateways", modes::two_gateways),
    ("ws_streaming", transports::ws_streaming),
    ("ws_polling", transports::ws_polling),
    ("http_streaming", transports::http_streaming),
    ("http_polling", transports::http_polling),
    ("content_length", transports::content_length),
    ("transport_changed", transports::transport_changed),
    ("compressed", transports::compressed),
    ("frequency", pacing::frequency),
    ("bandwidth", pacing::bandwidth),
    ("buffer_size", pacing::buffer_size),
    ("overflow", pacing::overflow),
    ("command_live", command::live),
    ("command_auto", command::auto),
    ("command_mode_refused", command::mode_refused),
    ("command_two_levels", command::two_levels),
    ("command_recovery", command::recovery),
    ("json_patch", diffs::json_patch),
    ("tlcp_diff", diffs::tlcp_diff),
    ("tls", secure::tls),
    ("extra_headers", secure::extra_headers),
    ("origins", secure::origins),
    ("identity_password", identity::password),
    ("identity_header", identity::header),
    ("identity_cookie", identity::cookie),
    ("identity_revocation", identity::revocation),
];

/// Cases about Weir's own pages, which run only with the browser SDK.
const PAGES: [(&str, Run); 9] = [
