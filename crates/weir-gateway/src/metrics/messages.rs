//! Metrics of client messages, written only if there are rules for them.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use weir_net::admin::MetricKind;

use super::MESSAGE_METRICS;
use super::histogram::encode_seconds;
use crate::latency::AgeHistogram;
use crate::messages::{MessageOutcome, Messages};

pub(super) fn encode(
    messages: &Messages,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let (name, kind) = ("weir_gateway_messages", MetricType::Counter);
    let help = "Client messages by rule and outcome.";
    let mut described = encoder.encode_descriptor(name, help, None, kind)?;
    for (rule, counters) in messages.counters() {
        for outcome in MessageOutcome::ALL {
            let labels = [("rule", rule), ("outcome", outcome.label())];
            let encoder = described.encode_family(&labels)?;
            MetricKind::Counter.encode(counters.count(outcome), encoder)?;
        }
    }
    for metric in MESSAGE_METRICS {
        metric.encode((metric.value)(messages), encoder)?;
    }
    let mut counts = AgeHistogram::new();
    messages
        .ages()
        .iter()
        .for_each(|ages| ages.add_to(&mut counts));
    let help = "Time from a client message to the result of its record.";
    encode_seconds(&counts, "weir_gateway_message_seconds", help, encoder)
}
