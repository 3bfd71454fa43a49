//! Metrics per virtual cluster and API.

use super::support::*;

/// Returns the value of a sample of `/metrics`, 0 if there is none.
fn sample(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels: Vec<_> = labels
        .iter()
        .map(|(key, value)| format!("{key}=\"{value}\""))
        .collect();
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    };
    let line = page.lines().find(is_it);
    let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
    value.unwrap_or(0.0)
}

#[test]
fn requests_are_counted_per_cluster_and_api() {
    let proxy = proxy_with_loops(2, "name = \"orders\"\n");
    let topic = topic(&proxy.bootstrap(), "apis", 1, 1);
    let values = numbered("value", 100);
    let mut config = client_config(&proxy.bootstrap());
    produce(config.set("linger.ms", "5"), &topic, &values);
    // Without acknowledgements a request has no response.
    produce(config.set("acks", "0"), &topic, &values);
    assert_eq!(consume(&proxy.bootstrap(), &topic, 200).len(), 200);
    await_that("the counts of all requests", || {
        let page = proxy.page("/metrics");
        let all = sample(&page, "weir_proxy_requests_total", &[]);
        let sum: f64 = page
            .lines()
            .filter(|line| line.starts_with("weir_proxy_api_requests_total{"))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum();
        let plain = page
            .lines()
            .find_map(|line| line.strip_prefix("weir_proxy_requests_total "));
        all == 0.0 && plain.and_then(|text| text.parse().ok()) == Some(sum)
    });
    let page = proxy.page("/metrics");
    let of = |name: &str, api: &str| sample(&page, name, &[("cluster", "orders"), ("api", api)]);
    let produced = of("weir_proxy_api_requests_total", "Produce");
    assert!(produced >= 2.0, "{produced}");
    let bytes = of("weir_proxy_api_request_bytes_total", "Produce");
    assert!(
        bytes > values.iter().map(String::len).sum::<usize>() as f64,
        "{bytes}"
    );
    for api in ["Fetch", "Metadata", "ApiVersions"] {
        let (requests, responses) = (
            of("weir_proxy_api_requests_total", api),
            of("weir_proxy_upstream_seconds_count", api),
        );
        assert!(requests >= responses && responses > 0.0, "{api}");
        assert!(of("weir_proxy_upstream_seconds_sum", api) > 0.0, "{api}");
        assert!(
            of("weir_proxy_api_response_bytes_total", api) > 0.0,
            "{api}"
        );
    }
    let answered = of("weir_proxy_upstream_seconds_count", "Produce");
    assert!(
        answered > 0.0 && answered < produced,
        "{answered} of {produced}"
    );
    let labels = [("api", "Produce"), ("direction", "request")];
    assert_eq!(
        sample(&page, "weir_proxy_frame_bytes_count", &labels),
        produced
    );
    assert_eq!(sample(&page, "weir_proxy_frame_bytes_sum", &labels), bytes);
    assert_eq!(of("weir_proxy_api_requests_total", "CreateTopics"), 1.0);
}
