//! Tests of token sources. Services are stubs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use super::*;
use crate::secret::Secret;
use crate::stores::Roots;

/// An HTTP server that sends one response per connection and returns the requests.
pub(super) struct Stub {
    pub(super) url: String,
    requests: JoinHandle<Vec<String>>,
}

impl Stub {
    pub(super) fn start(responses: Vec<(u16, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        eprintln!("stub: HTTP server at {url}");
        let requests = std::thread::spawn(move || {
            let respond = |(status, body): (u16, String)| {
                let (mut stream, _) = listener.accept().expect("a connection");
                stream
                    .set_read_timeout(Some(Duration::from_secs(5)))
                    .expect("a timeout");
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !is_complete(&request) {
                    let count = stream.read(&mut buffer).expect("a request");
                    assert!(count > 0, "the request ended early");
                    request.extend_from_slice(&buffer[..count]);
                }
                let length = body.len();
                let head = "content-type: text/plain\r\nconnection: close";
                let text = format!(
                    "HTTP/1.1 {status} Stub\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(text.as_bytes()).expect("written");
                String::from_utf8_lossy(&request).into_owned()
            };
            responses.into_iter().map(respond).collect()
        });
        Self { url, requests }
    }

    pub(super) fn requests(self) -> Vec<String> {
        self.requests.join().expect("the stub served all requests")
    }
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |it| it.trim().parse().expect("a length"))
}

fn endpoint(url: &str) -> TokenSource {
    let endpoint = TokenEndpoint {
        url: format!("{url}/token"),
        client_id: "app".to_owned(),
        client_secret: Secret::new("s3cret"),
        scope: Some("kafka read".to_owned()),
        urlencode: false,
        roots: Roots::System,
    };
    TokenSource::endpoint(endpoint, Vec::new())
}

#[test]
fn token_of_stub_endpoint_is_reused() {
    let body = r#"{"access_token":"abc","token_type":"Bearer","expires_in":3600}"#;
    let stub = Stub::start(vec![(200, body.to_owned())]);
    let source = endpoint(&stub.url);
    assert_eq!(source.cached(), None);
    let token = source.token().expect("a token");
    assert_eq!((token.token.reveal(), &*token.principal), ("abc", "app"));
    assert!(token.expires > SystemTime::now() + Duration::from_secs(3500));
    assert_eq!(
        source.clone().token().as_ref(),
        Ok(&token),
        "the clone shares the token"
    );
    assert_eq!(source.cached(), Some(token));
    let requests = stub.requests();
    let request = requests[0].to_ascii_lowercase();
    assert!(request.starts_with("post /token http/1.1"), "{request}");
    // "app:s3cret"
    assert!(requests[0].contains("Basic YXBwOnMzY3JldA=="), "{request}");
    assert!(
        request.ends_with("grant_type=client_credentials&scope=kafka%20read"),
        "{request}"
    );
}

#[test]
fn stub_endpoint_failures_name_the_cause_and_no_secret() {
    let denied = r#"{"error":"invalid_client","error_description":"unknown client"}"#;
    for (status, body, expected) in [
        (401, denied, "status 401 (invalid_client unknown client)"),
        (302, "", "status 302"),
        (200, "<html>", "not a JSON object"),
        (200, r#"{"access_token":"a b"}"#, "contains characters"),
    ] {
        let stub = Stub::start(vec![(status, body.to_owned())]);
        let error = endpoint(&stub.url).token().expect_err(body).to_string();
        assert!(
            error.contains(expected) && !error.contains("s3cret"),
            "{error}"
        );
        drop(stub.requests());
    }
}

#[test]
fn token_files_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token").display().to_string();
    let source = TokenSource::file(path.clone(), Vec::new());
    let missing = source.token().expect_err("no file").to_string();
    assert!(missing.contains(&path), "{missing}");
    std::fs::write(&path, "abc\n").expect("written");
    let token = TokenSource::file(path, Vec::new())
        .token()
        .expect("a token");
    assert_eq!(token.token.reveal(), "abc");
}
