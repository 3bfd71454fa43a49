//! Tests of the admin port's pages.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

fn json(gateway: &Gateway, after: u64) -> Value {
    let (status, head, body) = get(
        gateway.admin_address(),
        &format!("/dashboard.json?after={after}"),
        "",
    );
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    serde_json::from_str(&body).expect("JSON")
}

/// Waits for samples after a number.
fn await_rows(gateway: &Gateway, after: u64) -> Value {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let answer = json(gateway, after);
        if answer["rows"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty())
        {
            return answer;
        }
        assert!(Instant::now() < deadline, "no samples");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn last(answer: &Value, column: &str) -> Value {
    let columns = answer["columns"].as_array().expect("columns");
    let number = columns
        .iter()
        .position(|one| one == column)
        .unwrap_or_else(|| panic!("{column}"));
    let rows = answer["rows"].as_array().expect("rows");
    let row = rows.last().expect("a row").as_array().expect("values");
    assert_eq!(row.len(), columns.len());
    row[number].clone()
}

#[test]
fn samples_are_returned_once() {
    let gateway = Files::new().start("");
    let first = await_rows(&gateway, 0);
    for column in [
        "sessions",
        "updates",
        "bytes_out",
        "cpu.shard-1",
        "cpu.kafka",
        "resident",
    ] {
        assert!(last(&first, column).is_number(), "{column}");
    }
    assert_eq!(
        last(&first, "latency_p50"),
        Value::Null,
        "no delivery, no latency"
    );
    assert_eq!(
        last(&first, "lag.QuickStart"),
        Value::Null,
        "unknown without a broker"
    );
    assert_eq!(first["connections"][0]["name"], "QuickStart");
    assert_eq!(first["connections"][0]["ready"], false);
    assert_eq!(first["problems"][0]["source"], "connection QuickStart");
    assert!(
        first["problems"][0]["address"]
            .as_str()
            .is_some_and(|at| at.contains(':'))
    );
    assert_eq!(
        first["problems"][0]["since_unix_ms"],
        first["started_unix_ms"]
    );
    assert_eq!(first["events"][0]["text"], "started");
    let next = first["next"].as_u64().expect("a number");
    let mut socket = upgrade(connect(gateway.listen_address()), None).expect("a WebSocket");
    assert!(exchange(&mut socket, CREATE, "CON").starts_with("CONOK,"));
    await_metric(&gateway, "weir_gateway_sessions 1");
    let more = await_rows(
        &gateway,
        json(&gateway, 0)["next"].as_u64().expect("a number"),
    );
    assert_eq!(last(&more, "sessions"), 1.0);
    assert_eq!(last(&more, "sessions.ws_streaming"), 1.0);
    assert!(
        last(&more, "core.0").is_number(),
        "two seconds are enough for a value"
    );
    assert!(more["next"].as_u64() > Some(next));
    assert!(
        more["rows"].as_array().is_some_and(|rows| rows.len() < 3),
        "only new samples"
    );
    gateway.shut_down();
}

#[test]
fn page_loads_only_its_own_parts() {
    let gateway = Files::new().start("");
    let admin = gateway.admin_address();
    let (status, head, page) = get(admin, "/dashboard", "");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(
        head.contains(
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';"
        ),
        "{head}"
    );
    assert!(!head.contains("unsafe"), "{head}");
    for header in [
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "referrer-policy: no-referrer",
    ] {
        assert!(head.contains(header), "{header}");
    }
    let quoted = page.split('"').skip(1).step_by(2);
    let parts: BTreeSet<_> = quoted.filter(|text| text.starts_with('/')).collect();
    assert_eq!(parts.len(), 5, "{parts:?}");
    for part in parts {
        let (status, head, body) = get(admin, part, "");
        assert_eq!(status, 200, "{part}");
        let kind = if part.ends_with(".css") {
            "text/css"
        } else {
            "text/javascript"
        };
        assert!(
            head.contains(kind) && head.contains("default-src 'none'"),
            "{part}: {head}"
        );
        assert!(!body.is_empty());
    }
    gateway.shut_down();
}

#[test]
fn try_page_may_connect_to_the_client_port_only() {
    let gateway = Files::new().start("");
    let admin = gateway.admin_address();
    let (status, head, _) = get(admin, "/try", "");
    assert_eq!(status, 200);
    let policy = format!(
        "script-src 'self'; style-src 'self'; connect-src 'self' ws://*:{};",
        gateway.listen_address().port()
    );
    assert!(head.contains(&policy), "{head}");
    assert_eq!(head.matches("content-security-policy").count(), 1, "{head}");
    let (_, _, body) = get(admin, "/try.json", "");
    let listed: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(listed["port"], gateway.listen_address().port());
    let connection = &listed["connections"][0];
    assert_eq!(connection["name"], "QuickStart");
    for list in ["topics", "items", "fields"] {
        assert!(
            connection[list]
                .as_array()
                .is_some_and(|all| !all.is_empty()),
            "{list}"
        );
    }
    gateway.shut_down();
}

#[test]
fn page_is_public_and_data_needs_token() {
    let gateway = Files::new().start("[admin]\ntoken = \"s3cret\"");
    let admin = gateway.admin_address();
    assert_eq!(get(admin, "/dashboard", "").0, 200);
    assert_eq!(get(admin, "/try", "").0, 200);
    // Orchestrators ask without a token.
    assert_eq!(get(admin, "/health/live", "").0, 200);
    assert_ne!(get(admin, "/health/ready", "").0, 401);
    for path in ["/dashboard.json", "/try.json", "/metrics"] {
        let (status, head, body) = get(admin, path, "");
        assert_eq!(status, 401, "{path}");
        assert!(head.contains("www-authenticate: bearer"), "{head}");
        assert!(!body.contains("QuickStart"), "{body}");
        assert_eq!(get(admin, path, "Authorization: Bearer s3cre7\r\n").0, 401);
    }
    assert_eq!(
        get(admin, "/dashboard.json", "Authorization: Bearer s3cret\r\n").0,
        200
    );
    gateway.shut_down();
}

#[test]
fn names_are_returned_unchanged_as_data() {
    let files = Files::new();
    let hostile = "<img src=x onerror=alert(1)>\\\"</script>";
    let config = files.load(&format!("adapter_set = \"{hostile}\""));
    let gateway = Gateway::start(config.expect("a valid configuration")).expect("a gateway");
    let answer = json(&gateway, 0);
    assert_eq!(
        answer["adapter_set"],
        "<img src=x onerror=alert(1)>\"</script>"
    );
    let (_, _, page) = get(gateway.admin_address(), "/dashboard", "");
    assert!(
        !page.contains("onerror"),
        "the page does not depend on the configuration"
    );
    gateway.shut_down();
}

/// Returns the metric names in a text: words with the prefix of the gateway's metrics.
fn names(text: &str) -> BTreeSet<String> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !inside(c));
    words
        .filter(|word| word.starts_with("weir_gateway_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn grafana_file_uses_existing_metrics() {
    let files = Files::new();
    std::fs::copy(fixture("server.pem"), files.path("c")).expect("a copy");
    std::fs::copy(fixture("server.key"), files.path("k")).expect("a copy");
    let gateway = files.start("[tls]\ncertificate = \"c\"\nkey = \"k\"\nlisten = \"127.0.0.1:0\"");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/weir-gateway.json");
    let text = std::fs::read_to_string(file).expect("the file");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() > 10);
    let served = names(&metrics(&gateway));
    let used = names(&text);
    let missing: Vec<_> = used.difference(&served).collect();
    assert!(missing.is_empty(), "{missing:?}");
    gateway.shut_down();
}
