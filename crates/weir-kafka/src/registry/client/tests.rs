use super::*;
use crate::registry::fake::{FakeRegistry, Reaction};

const TIMEOUT: Duration = Duration::from_secs(20);

fn settings(url: &str, login: RegistryLogin) -> RegistrySettings {
    RegistrySettings {
        url: url.to_owned(),
        login,
        tls: None,
        request_timeout: TIMEOUT,
    }
}

fn client(registry: &FakeRegistry) -> RegistryClient {
    RegistryClient::new(&settings(&registry.url(), RegistryLogin::None)).expect("valid settings")
}

fn response(text: &str) -> Reaction {
    Reaction::Respond(200, text.to_owned())
}

fn error_of(reaction: Reaction) -> String {
    let registry = FakeRegistry::start(move |_| reaction.clone());
    let error = client(&registry)
        .schema(&RegistryId::Number(5))
        .unwrap_err();
    error.to_string().replace(&registry.url(), "URL")
}

#[test]
fn references_are_fetched_once_and_come_first() {
    let reference = |name: &str, subject: &str| {
        format!(r#"{{"name": "{name}", "subject": "{subject}", "version": 1}}"#)
    };
    let (a, b) = (reference("a.proto", "x/a"), reference("b.proto", "b"));
    let registry = FakeRegistry::start(move |request| match request.target.as_str() {
        "GET /schemas/ids/5" => response(&format!(
            r#"{{"schema": "main", "schemaType": "PROTOBUF", "references": [{a}, {b}]}}"#
        )),
        "GET /subjects/x%2Fa/versions/1" => {
            response(&format!(r#"{{"schema": "A", "references": [{b}]}}"#))
        }
        "GET /subjects/b/versions/1" => response(r#"{"schema": "B"}"#),
        other => Reaction::Respond(500, other.to_owned()),
    });
    let schema = client(&registry)
        .schema(&RegistryId::Number(5))
        .expect("a schema");
    assert_eq!(
        (schema.kind.as_str(), schema.text.as_str()),
        ("PROTOBUF", "main")
    );
    let references = schema.references.iter();
    let references: Vec<_> = references.map(|one| (&*one.name, &*one.text)).collect();
    assert_eq!(references, [("b.proto", "B"), ("a.proto", "A")]);
    assert_eq!(registry.seen().len(), 3);
}

#[test]
fn endless_references_are_an_error() {
    let registry = FakeRegistry::start(|request| {
        let number = request.target.len();
        response(&format!(
            r#"{{"schema": "", "references":
                [{{"name": "n", "subject": "{}", "version": 1}}]}}"#,
            "s".repeat(number)
        ))
    });
    let error = client(&registry)
        .schema(&RegistryId::Number(5))
        .unwrap_err();
    assert_eq!(error.to_string(), "schema 5 has more than 100 references");
    assert!(!error.is_transient());
}

#[test]
fn guid_and_subject_requests() {
    let registry = FakeRegistry::start(|request| match request.target.as_str() {
        "GET /schemas/guids/0-1" => response(r#"{"schema": "\"int\""}"#),
        "GET /subjects/t-value/versions/latest" => {
            response(r#"{"subject": "t-value", "version": 2, "id": 9, "schema": "\"int\""}"#)
        }
        _ => Reaction::Respond(
            404,
            r#"{"error_code": 40401, "message": "no subject"}"#.to_owned(),
        ),
    });
    let client = client(&registry);
    let schema = client
        .schema(&RegistryId::Guid("0-1".into()))
        .expect("a schema");
    assert_eq!(schema.text, "\"int\"");
    assert_eq!(client.newest_version("t-value").expect("a version").id, 9);
    let error = client.newest_version("t-key").unwrap_err();
    assert!(error.is_not_found() && error.to_string().ends_with("not found: no subject"));
}

#[test]
fn basic_login_is_sent_and_rejected_login_named() {
    let login = RegistryLogin::Basic(Login {
        username: "user".to_owned(),
        password: Secret::new("pass:word"),
    });
    let registry = FakeRegistry::start(|request| {
        match request.authorization == "Basic dXNlcjpwYXNzOndvcmQ=" {
            true => response("[]"),
            false => Reaction::Respond(401, r#"{"message": "Unauthorized"}"#.to_owned()),
        }
    });
    let good = RegistryClient::new(&settings(&registry.url(), login)).expect("valid settings");
    assert_eq!(good.check(), Ok(()));
    assert!(!format!("{good:?}").contains("dXNlc"));
    let error = client(&registry).check().unwrap_err().to_string();
    assert!(error.contains("login rejected with status 401"), "{error}");
}

#[test]
fn faults_are_named() {
    let rows = [
        (
            response("<html>"),
            "URL/schemas/ids/5: invalid response: expected value",
        ),
        (
            response("{}"),
            "URL/schemas/ids/5: invalid response: missing field `schema`",
        ),
        (
            Reaction::Respond(500, r#"{"message": "boom"}"#.to_owned()),
            "URL/schemas/ids/5: status 500: boom",
        ),
        (
            Reaction::Respond(302, String::new()),
            "URL/schemas/ids/5: status 302",
        ),
        (
            response(&" ".repeat((4 << 20) + 1)),
            "URL/schemas/ids/5: invalid response: more than 4194304 bytes",
        ),
        (
            Reaction::Bytes(b"garbage\r\n\r\n".to_vec()),
            "URL/schemas/ids/5: ",
        ),
        (
            Reaction::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec()),
            "URL/schemas/ids/5: ",
        ),
        (Reaction::Bytes(Vec::new()), "URL/schemas/ids/5: "),
    ];
    for (reaction, expected) in rows {
        let error = error_of(reaction);
        assert!(error.starts_with(expected), "{error} is not {expected}");
    }
}

#[test]
fn slow_response_ends_at_limit() {
    let registry = FakeRegistry::start(|_| Reaction::Silence);
    let client = RegistryClient::new(&RegistrySettings {
        request_timeout: Duration::from_millis(100),
        ..settings(&registry.url(), RegistryLogin::None)
    });
    let error = client.expect("valid settings").check().unwrap_err();
    assert!(
        error.to_string().ends_with("no response within 100 ms"),
        "{error}"
    );
    assert!(error.is_transient());
}

#[test]
fn closed_port_is_no_connection() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", port.local_addr().expect("an address"));
    drop(port);
    let client = RegistryClient::new(&settings(&url, RegistryLogin::None)).expect("valid");
    let error = client.check().unwrap_err();
    assert!(matches!(error, RegistryError::Connection { .. }), "{error}");
}

#[test]
fn urls_are_checked() {
    let error = |url: &str| {
        let client = RegistryClient::new(&settings(url, RegistryLogin::None));
        client.map(drop).unwrap_err().to_string()
    };
    assert!(error("ftp://h").contains("begin it with http://"));
    let text = error("http://user:secret@h:1/x");
    assert!(
        text.contains("as parameters") && !text.contains("secret"),
        "{text}"
    );
    assert!(error("http://h/?a=b").contains("remove everything"));
    let client = RegistryClient::new(&settings("http://h:1/apis/v7/", RegistryLogin::None));
    assert_eq!(client.expect("valid").url(), "http://h:1/apis/v7");
}

/// Azure cannot run here: this stub has its interface.
#[test]
#[allow(clippy::print_stdout, reason = "a stub in place of a service is named")]
fn azure_stub_gets_token_once_and_schema_by_name() {
    println!("stub: Azure Event Hubs and its identity provider");
    let registry = FakeRegistry::start(|request| match request.target.as_str() {
        "POST /tenant/oauth2/v2.0/token" if request.body.contains("client_secret=s3cret") => {
            response(r#"{"access_token": "T", "expires_in": 3600, "token_type": "Bearer"}"#)
        }
        "POST /tenant/oauth2/v2.0/token" => {
            Reaction::Respond(400, r#"{"error": "invalid_client"}"#.to_owned())
        }
        "GET /$schemaGroups/$schemas/0fa1?api-version=2023-07-01"
            if request.authorization == "Bearer T" =>
        {
            let kind = "application/json; serialization=Avro";
            Reaction::Typed(200, kind, "\"int\"".to_owned())
        }
        _ => Reaction::Respond(404, String::new()),
    });
    let login = |secret: &str| RegistryLogin::Azure {
        authority: Some(registry.url()),
        tenant_id: "tenant".to_owned(),
        client_id: "id".to_owned(),
        client_secret: Secret::new(secret),
    };
    let client = RegistryClient::new(&settings(&registry.url(), login("s3cret"))).expect("valid");
    assert_eq!(client.check(), Ok(()));
    for _ in 0..2 {
        let schema = client
            .schema(&RegistryId::Name("0fa1".into()))
            .expect("a schema");
        assert_eq!(
            (schema.kind.as_str(), schema.text.as_str()),
            ("AVRO", "\"int\"")
        );
    }
    let tokens = registry.seen();
    let tokens = tokens
        .iter()
        .filter(|request| request.target.starts_with("POST"));
    assert_eq!(tokens.count(), 1);
    let error = client.schema(&RegistryId::Name("0fa2".into())).unwrap_err();
    assert!(error.is_not_found());
    let wrong = RegistryClient::new(&settings(&registry.url(), login("wrong"))).expect("valid");
    let error = wrong.check().unwrap_err().to_string();
    assert!(
        error.contains("login rejected") && !error.contains("wrong"),
        "{error}"
    );
}

#[test]
fn registration_returns_the_id() {
    let registry = FakeRegistry::start(|request| match request.target.as_str() {
        "POST /subjects/a%2Fb-value/versions" => response(r#"{"id": 7, "version": 1}"#),
        "POST /subjects/negative/versions" => response(r#"{"id": -7}"#),
        "POST /subjects/other/versions" => Reaction::Respond(
            409,
            r#"{"error_code": 409, "message": "incompatible with an earlier schema"}"#.to_owned(),
        ),
        other => Reaction::Respond(500, other.to_owned()),
    });
    let client = client(&registry);
    assert_eq!(
        client.register("a/b-value", "PROTOBUF", "syntax \"x\""),
        Ok(7)
    );
    let body: serde_json::Value =
        serde_json::from_str(&registry.seen()[0].body).expect("a JSON body");
    let expected = serde_json::json!({"schema": "syntax \"x\"", "schemaType": "PROTOBUF"});
    assert_eq!(body, expected);
    let error = client.register("other", "AVRO", "\"int\"").unwrap_err();
    assert!(
        error.to_string().contains("status 409: incompatible"),
        "{error}"
    );
    let error = client.register("negative", "AVRO", "\"int\"").unwrap_err();
    assert!(
        error.to_string().contains("invalid response: schema id -7"),
        "{error}"
    );
}
