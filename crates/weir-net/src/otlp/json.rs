//! OTLP 1.x in its JSON encoding: field names in camel case, ids in hexadecimal, 64-bit integers as
//! text, enumerations as numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::openmetrics::{Family, FamilyKind, Sample};
use super::span::{AttributeValue, Span};

/// Values since the start, as those of Prometheus.
const CUMULATIVE: u8 = 2;

/// Attributes of the process as OTLP values.
pub(super) fn resource(attributes: &BTreeMap<String, String>) -> Value {
    let attributes = attributes.iter();
    let attributes: Vec<_> = attributes.map(|(key, value)| text(key, value)).collect();
    json!({ "attributes": attributes })
}

/// Returns a request to `/v1/metrics`. Cumulative values began at `start_ns`.
pub(super) fn metrics(
    resource: &Value,
    families: &[Family<'_>],
    (start_ns, now_ns): (u64, u64),
) -> Value {
    let times = json!({
        "startTimeUnixNano": start_ns.to_string(),
        "timeUnixNano": now_ns.to_string(),
    });
    let metrics = families.iter().map(|family| metric(family, &times));
    json!({ "resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{ "scope": scope(), "metrics": metrics.collect::<Vec<_>>() }],
    }] })
}

/// Returns a request to `/v1/traces`.
pub(super) fn traces(resource: &Value, spans: &[Span]) -> Value {
    let spans: Vec<_> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{ "scope": scope(), "spans": spans }],
    }] })
}

fn scope() -> Value {
    json!({ "name": "weir", "version": env!("CARGO_PKG_VERSION") })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn metric(family: &Family<'_>, times: &Value) -> Value {
    let mut metric = json!({ "name": family.name, "description": family.help });
    let unit = [("_seconds", "s"), ("_bytes", "By")];
    if let Some((_, unit)) = unit
        .iter()
        .find(|(suffix, _)| family.name.ends_with(suffix))
    {
        metric["unit"] = json!(unit);
    }
    let points = || {
        family
            .samples
            .iter()
            .filter_map(|one| number_point(one, times))
    };
    match family.kind {
        FamilyKind::Gauge => {
            metric["gauge"] = json!({ "dataPoints": points().collect::<Vec<_>>() });
        }
        FamilyKind::Counter => {
            metric["sum"] = json!({
                "dataPoints": points().collect::<Vec<_>>(),
                "aggregationTemporality": CUMULATIVE,
                "isMonotonic": true,
            });
        }
        FamilyKind::Histogram => {
            metric["histogram"] = json!({
                "dataPoints": histogram_points(family, times),
                "aggregationTemporality": CUMULATIVE,
            });
        }
    }
    metric
}

fn attributes(labels: &[(&str, Cow<'_, str>)]) -> Value {
    let labels = labels.iter().filter(|(name, _)| *name != "le");
    labels.map(|(name, value)| text(name, value)).collect()
}

fn point(sample: &Sample<'_>, times: &Value) -> Value {
    let mut point = times.clone();
    point["attributes"] = attributes(&sample.labels);
    point
}

/// Returns a data point; `None` for values that JSON cannot have.
fn number_point(sample: &Sample<'_>, times: &Value) -> Option<Value> {
    let mut point = point(sample, times);
    match sample.value.parse::<i64>() {
        Ok(whole) => point["asInt"] = json!(whole.to_string()),
        Err(_) => point["asDouble"] = json!(finite(sample.value)?),
    }
    Some(point)
}

fn finite(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Returns a data point for each set of labels. The buckets of Prometheus contain all smaller
/// ones, those of OTLP do not.
fn histogram_points(family: &Family<'_>, times: &Value) -> Vec<Value> {
    let mut points = Vec::new();
    let mut bounds: Vec<f64> = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    let (mut sum, mut total) = (0.0, 0);
    let mut samples = family.samples.iter().peekable();
    while let Some(sample) = samples.next() {
        match sample.suffix {
            "_sum" => sum = finite(sample.value).unwrap_or(0.0),
            "_count" => total = sample.value.parse().unwrap_or(0),
            "_bucket" => {
                let bound = sample.labels.iter().find(|(name, _)| *name == "le");
                bounds.extend(bound.and_then(|(_, le)| finite(le)));
                counts.push(sample.value.parse().unwrap_or(0));
            }
            _ => {}
        }
        // A registry writes sum, count and buckets of one set of labels together.
        let is_last = sample.suffix == "_bucket"
            && samples.peek().is_none_or(|next| next.suffix != "_bucket");
        if !is_last {
            continue;
        }
        let mut below = 0;
        let apart = counts.drain(..).map(|upto| {
            let count = upto.saturating_sub(below);
            below = upto;
            count.to_string()
        });
        let mut point = point(sample, times);
        point["bucketCounts"] = apart.collect();
        point["explicitBounds"] = json!(bounds);
        point["sum"] = json!(sum);
        point["count"] = json!(total.to_string());
        points.push(point);
        bounds.clear();
    }
    points
}

fn span(span: &Span) -> Value {
    let attributes = span.attributes.iter().map(|(key, value)| match value {
        AttributeValue::Text(value) => text(key, value),
        AttributeValue::Number(value) => {
            json!({ "key": key, "value": { "intValue": value.to_string() } })
        }
    });
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("traceId", hex(&span.trace_id));
    put("spanId", hex(&span.span_id));
    if let Some(parent) = &span.parent {
        put("parentSpanId", hex(parent));
    }
    put("name", json!(span.name));
    put("kind", json!(span.kind as u8));
    put("startTimeUnixNano", json!(span.start_ns.to_string()));
    put("endTimeUnixNano", json!(span.end_ns.to_string()));
    put("attributes", attributes.collect());
    if let Some(link) = &span.link {
        let flags = u8::from(link.is_sampled);
        let link = json!({
            "traceId": hex(&link.trace_id), "spanId": hex(&link.span_id), "flags": flags,
        });
        put("links", json!([link]));
    }
    Value::Object(fields)
}

fn hex(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Value::String(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::openmetrics::parse;

    fn metrics_of(page: &str) -> Vec<Value> {
        let request = metrics(&json!({}), &parse(page), (1, 2));
        let metrics = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        metrics.as_array().expect("a list").clone()
    }

    #[test]
    fn counters_are_monotonic_sums() {
        let page = "# HELP a_bytes Help.\n# TYPE a_bytes counter\na_bytes_total{x=\"1\"} 7\n";
        let want = json!({
            "name": "a_bytes", "description": "Help.", "unit": "By",
            "sum": {
                "aggregationTemporality": 2, "isMonotonic": true,
                "dataPoints": [{
                    "startTimeUnixNano": "1", "timeUnixNano": "2", "asInt": "7",
                    "attributes": [{ "key": "x", "value": { "stringValue": "1" } }],
                }],
            },
        });
        assert_eq!(metrics_of(page), [want]);
    }

    #[test]
    fn gauges_keep_fractions() {
        let page = "# TYPE a gauge\na{x=\"1\"} 0.25\na{x=\"2\"} NaN\na{x=\"3\"} -4\n";
        let metrics = metrics_of(page);
        let points = metrics[0]["gauge"]["dataPoints"].as_array().unwrap();
        assert_eq!(points.len(), 2, "JSON has no NaN");
        assert_eq!(points[0]["asDouble"], json!(0.25));
        assert_eq!(points[1]["asInt"], json!("-4"));
    }

    #[test]
    fn buckets_are_apart_for_each_set_of_labels() {
        let of = |api: &str, counts: [u64; 3]| {
            let bucket =
                |le: &str, count| format!("h_bucket{{le=\"{le}\",api=\"{api}\"}} {count}\n");
            let [low, high, all] = counts;
            format!(
                "h_sum{{api=\"{api}\"}} 1.5\nh_count{{api=\"{api}\"}} {all}\n{}{}{}",
                bucket("0.1", low),
                bucket("1.0", high),
                bucket("+Inf", all)
            )
        };
        let page = format!(
            "# TYPE h histogram\n{}{}",
            of("a", [1, 3, 4]),
            of("b", [0, 0, 2])
        );
        let metrics = metrics_of(&page);
        let points = metrics[0]["histogram"]["dataPoints"].as_array().unwrap();
        let counts = |index: usize| (&points[index]["bucketCounts"], &points[index]["count"]);
        assert_eq!(points.len(), 2);
        assert_eq!(counts(0), (&json!(["1", "2", "1"]), &json!("4")));
        assert_eq!(counts(1), (&json!(["0", "0", "2"]), &json!("2")));
        assert_eq!(points[0]["explicitBounds"], json!([0.1, 1.0]));
        assert_eq!(
            points[1]["attributes"][0]["value"]["stringValue"],
            json!("b")
        );
        assert_eq!(
            points[1]["attributes"].as_array().unwrap().len(),
            1,
            "without le"
        );
    }
}
