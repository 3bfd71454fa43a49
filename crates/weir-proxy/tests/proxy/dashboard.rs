//! The dashboard of a proxy whose broker does not respond.

use std::io::Write;

use serde_json::Value;

use super::support::*;

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").expect("a body").1
}

fn samples(proxy: &TestProxy, after: u64) -> Value {
    let response = proxy.page(&format!("/dashboard.json?after={after}"));
    assert!(
        response.contains("Content-Type: application/json"),
        "{response}"
    );
    serde_json::from_str(body(&response)).expect("JSON")
}

fn last(response: &Value, column: &str) -> Value {
    let columns = response["columns"].as_array().expect("columns");
    let number = columns.iter().position(|one| one == column);
    let number = number.unwrap_or_else(|| panic!("no column {column}"));
    let row = response["rows"]
        .as_array()
        .expect("rows")
        .last()
        .expect("a row");
    assert_eq!(row.as_array().map(Vec::len), Some(columns.len()));
    row[number].clone()
}

#[test]
fn samples_follow_clients_and_are_returned_once() {
    let proxy = proxy_to("127.0.0.1:1", "name = \"one\"");
    let _client = Raw::connect(proxy.address);
    await_that("a sample with the client's attempt", || {
        proxy.metric("weir_proxy_connections_accepted_total") == 1
            && samples(&proxy, 0)["next"].as_u64() >= Some(2)
    });
    let response = samples(&proxy, 0);
    for column in [
        "connections",
        "requests",
        "bytes_in",
        "filter_records",
        "claimed",
        "connect_failures",
        "resident",
        "cpu.proxy-1",
        "cpu.filter",
        "core.0",
    ] {
        assert!(last(&response, column).is_number(), "{column}");
    }
    let clusters = response["clusters"].as_array().expect("clusters");
    assert_eq!(clusters.len(), 1);
    assert_eq!(
        (&clusters[0]["name"], &clusters[0]["ready"]),
        (&"one".into(), &false.into())
    );
    await_that("the probe to fail", || {
        samples(&proxy, 0)["brokers"][0]["error"].is_string()
    });
    await_that("the problem", || {
        samples(&proxy, 0)["problems"][0]["address"] == "127.0.0.1:1"
    });
    let shown = samples(&proxy, 0);
    let problem = &shown["problems"][0];
    assert_eq!(problem["source"], "broker of one");
    assert!(problem["since_unix_ms"].as_u64() >= shown["started_unix_ms"].as_u64());
    assert_eq!(shown["events"][0]["kind"], "start");
    let next = response["next"].as_u64().expect("a number");
    let rows = |after| samples(&proxy, after)["rows"].as_array().map(Vec::len);
    assert!(rows(next) < rows(0), "only new samples");
}

#[test]
fn page_is_public_and_data_needs_token() {
    let proxy = proxy_to("127.0.0.1:1", "[admin]\ntoken = \"s3cret\"\n---\n");
    let page = proxy.page("/dashboard");
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    assert!(
        page.contains("Content-Security-Policy: default-src 'none'"),
        "{page}"
    );
    let parts = body(&page).split('"').skip(1).step_by(2);
    let parts: Vec<_> = parts.filter(|text| text.starts_with('/')).collect();
    assert_eq!(parts.len(), 5, "{parts:?}");
    for part in parts {
        assert!(proxy.page(part).starts_with("HTTP/1.1 200 "), "{part}");
    }
    assert!(proxy.page("/dashboard/product.js").contains("Weir proxy"));
    for path in ["/dashboard.json", "/metrics", "/connections"] {
        assert!(proxy.page(path).starts_with("HTTP/1.1 401 "), "{path}");
    }
    // Orchestrators ask without a token.
    for (path, status) in [("/health/live", 200), ("/health/ready", 503)] {
        let response = proxy.page(path);
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status} ")),
            "{response}"
        );
    }
    let address = proxy.get().admin_address();
    let mut stream = std::net::TcpStream::connect(address).expect("admin port");
    let request = "GET /dashboard.json HTTP/1.1\r\nHost: localhost\r\n\
                   Authorization: Bearer s3cret\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sends");
    let response = std::io::read_to_string(stream).expect("reads");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}
