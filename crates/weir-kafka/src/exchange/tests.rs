use std::collections::VecDeque;

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsResponse, HeartbeatRequest, HeartbeatResponse, RequestHeader,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeResponse,
};
use kafka_protocol::protocol::Encodable;
use weir_security::{Login, SaslSettings, Secret, Security};

use super::*;
use weir_wire::header::{RequestPeek, request_header_version};

#[test]
fn servers_are_split_into_host_and_port() {
    let found: Vec<_> = servers("a:1, [::1]:2,b,c:x").map(Result::ok).collect();
    assert_eq!(found, [Some(("a", 1)), Some(("::1", 2)), None, None]);
}

#[test]
fn responses_must_match_their_request() {
    let frame = Bytes::from_static(b"\0\0\0\x02\0body");
    assert_eq!(body_of(frame.clone(), 1, 2).expect("body"), b"body"[..]);
    assert!(body_of(frame, 1, 1).is_err());
    assert!(body_of(Bytes::from_static(b"\0\0\0"), 1, 0).is_err());
}

/// A broker in memory that requires PLAIN and ends sessions as Kafka does: it rejects other
/// requests than a login after the lifetime.
struct ScriptedBroker {
    now: Instant,
    lifetime: Duration,
    valid_until: Option<Instant>,
    received: Vec<(ApiKey, i32)>,
    responses: VecDeque<u8>,
}

impl ScriptedBroker {
    fn respond(&mut self, mut frame: Bytes) {
        let peek = RequestPeek::read(&frame).expect("header");
        let key = ApiKey::try_from(peek.api_key).expect("known");
        self.received.push((key, peek.correlation_id));
        let header = request_header_version(peek.api_key, peek.api_version).expect("known");
        RequestHeader::decode(&mut frame, header).expect("header");
        let mut body = BytesMut::new();
        match key {
            ApiKey::ApiVersions => {
                let range = ApiVersion::default().with_api_key(ApiKey::SaslAuthenticate as i16);
                let mut response = ApiVersionsResponse::default();
                response.api_keys = vec![range.with_max_version(1)];
                response.encode(&mut body, 0).expect("encodes");
            }
            ApiKey::SaslHandshake => SaslHandshakeResponse::default()
                .encode(&mut body, 1)
                .expect("encodes"),
            ApiKey::SaslAuthenticate => {
                let request = SaslAuthenticateRequest::decode(&mut frame, 1).expect("body");
                let is_right = request.auth_bytes == b"\0user\0pencil"[..];
                self.valid_until = is_right.then(|| self.now + self.lifetime);
                SaslAuthenticateResponse::default()
                    .with_error_code(if is_right { 0 } else { 58 })
                    .with_session_lifetime_ms(self.lifetime.as_millis() as i64)
                    .encode(&mut body, 1)
                    .expect("encodes");
            }
            _ => {
                let is_valid = self.valid_until.is_some_and(|end| self.now < end);
                assert!(is_valid, "request outside a session");
                let response = HeartbeatResponse::default();
                response.encode(&mut body, 0).expect("encodes");
            }
        }
        let size = i32::try_from(4 + body.len()).expect("small");
        self.responses.extend(size.to_be_bytes());
        self.responses.extend(peek.correlation_id.to_be_bytes());
        self.responses.extend(body);
    }
}

impl Write for ScriptedBroker {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.respond(Bytes::copy_from_slice(&bytes[4..]));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for ScriptedBroker {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.responses.read(buffer)
    }
}

fn stream(lifetime: Duration, password: &str) -> BrokerStream<ScriptedBroker> {
    let login = Login {
        username: "user".to_owned(),
        password: Secret::new(password),
    };
    let security = Security {
        tls: None,
        sasl: Some(SaslSettings::Plain(login)),
    };
    let security = BrokerSecurity::new(&security).expect("valid");
    let broker = ScriptedBroker {
        now: Instant::now(),
        lifetime,
        valid_until: None,
        received: Vec::new(),
        responses: VecDeque::new(),
    };
    BrokerStream::new(broker, ("broker", 9092), &Arc::new(security))
}

/// Sends a request every second of a scripted clock and returns all requests that were received.
fn requests_of(lifetime: Duration, seconds: u64) -> Vec<(ApiKey, i32)> {
    let mut stream = stream(lifetime, "pencil");
    let start = stream.stream.now;
    for second in 0..seconds {
        let now = start + Duration::from_secs(second);
        stream.stream.now = now;
        let request = HeartbeatRequest::default();
        let response = stream.exchange_at(now, "me", 0, &request);
        response.expect("in the session");
    }
    stream.stream.received
}

#[test]
fn login_is_repeated_before_the_session_ends() {
    let received = requests_of(Duration::from_secs(60), 600);
    let count = |key| received.iter().filter(|it| it.0 == key).count();
    assert_eq!(count(ApiKey::Heartbeat), 600);
    assert_eq!(count(ApiKey::ApiVersions), 1);
    let logins = count(ApiKey::SaslAuthenticate);
    assert_eq!(logins, count(ApiKey::SaslHandshake));
    // One per 51 to 57 seconds.
    assert!((11..=12).contains(&logins), "{logins}");
    let ids: Vec<_> = received.iter().map(|it| it.1).collect();
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn unlimited_session_logs_in_once() {
    let mut stream = stream(Duration::from_secs(1 << 30), "pencil");
    stream
        .exchange("me", 0, &HeartbeatRequest::default())
        .expect("in the session");
    stream
        .exchange("me", 0, &HeartbeatRequest::default())
        .expect("in the session");
    let keys: Vec<_> = stream.stream.received.iter().map(|it| it.0).collect();
    let (login, request) = (ApiKey::SaslAuthenticate, ApiKey::Heartbeat);
    let expected = [
        ApiKey::ApiVersions,
        ApiKey::SaslHandshake,
        login,
        request,
        request,
    ];
    assert_eq!(keys, expected);
}

#[test]
fn wrong_password_is_reported_and_ends_exchange() {
    let mut stream = stream(Duration::from_secs(60), "wrong");
    let error = stream.exchange("me", 0, &HeartbeatRequest::default());
    let error = error.expect_err("wrong password");
    assert!(error.is_permanent());
    let text = error.to_string();
    assert!(
        text.starts_with("broker broker:9092: PLAIN login rejected: "),
        "{text}"
    );
    assert!(!text.contains("wrong"), "{text}");
    let heartbeats = stream.stream.received.iter();
    assert_eq!(heartbeats.filter(|it| it.0 == ApiKey::Heartbeat).count(), 0);
}

#[test]
fn connection_closed_at_once_names_the_likely_cause() {
    let error = ExchangeError::from_io(ErrorKind::UnexpectedEof.into(), "broker", true);
    assert!(
        error.to_string().contains("set security.protocol"),
        "{error}"
    );
    let error = ExchangeError::from_io(ErrorKind::UnexpectedEof.into(), "broker", false);
    assert_eq!(error.to_string(), "closed by the broker");
    let failed = io::Error::other(rustls::Error::InvalidCertificate(
        rustls::CertificateError::UnknownIssuer,
    ));
    let error = ExchangeError::from_io(failed, "broker", true);
    assert!(error.to_string().contains("unknown authority"), "{error}");
}

#[test]
fn encrypted_connection_verifies_the_broker() {
    use crate::secure::test_broker::{AUTHORITY, SECOND, TestBroker, TestTls, trusting};
    let tls = TestTls {
        version: &rustls::version::TLS13,
        needs_client_certificate: false,
    };
    let broker = TestBroker::start(Some(tls), 2, usize::MAX);
    let connect = |trusted| {
        let security = BrokerSecurity::new(&trusting(trusted)).expect("valid");
        let address = ("localhost", broker.address.port());
        let timeout = Duration::from_secs(10);
        BrokerStream::connect(&Arc::new(security), address, timeout).expect("connects")
    };
    let heartbeat = HeartbeatRequest::default();
    let mut stream = connect(AUTHORITY);
    // The request ends with zeros, so that the test broker's response is empty.
    stream.exchange("me", 0, &heartbeat).expect("responds");
    drop(stream);
    let error = connect(SECOND)
        .exchange("me", 0, &heartbeat)
        .expect_err("unknown");
    assert!(error.is_permanent());
    assert!(error.to_string().contains("unknown authority"), "{error}");
    broker.join();
}

/// Sends one request and reads the response `frame`, whose prefix announces `size` bytes.
fn read_frame_into(
    (size, frame): (i32, &[u8]),
    buffer: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<(i32, usize), ConnectError> {
    /// A broker that sends its bytes whatever it receives.
    struct FixedResponse(VecDeque<u8>);
    impl Read for FixedResponse {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Write for FixedResponse {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let security = Arc::new(BrokerSecurity::new(&Security::default()).expect("valid"));
    let bytes = size.to_be_bytes().into_iter().chain(frame.iter().copied());
    let broker = FixedResponse(bytes.collect());
    let mut stream = BrokerStream::new(broker, ("host", 1), &security);
    let write = |out: &mut BytesMut, id: i32| {
        out.extend_from_slice(&id.to_be_bytes());
        Ok(())
    };
    stream.exchange_into("me", (buffer, bytes_max), write)
}

#[test]
fn frame_is_read_to_the_start_of_a_used_buffer() {
    let mut buffer = vec![7; 9];
    let read = read_frame_into((5, b"first"), &mut buffer, 100).expect("a frame");
    assert_eq!((read, buffer.len()), ((1, 5), 9));
    assert_eq!(&buffer[..5], b"first");
    let long = vec![1; 300_000];
    let (_, length) = read_frame_into((300_000, &long), &mut buffer, 300_000).expect("a frame");
    assert_eq!(buffer[..length], long);
}

#[test]
fn announced_size_is_limited_and_allocates_little() {
    let mut buffer = Vec::new();
    for size in [-1, 101] {
        let error = read_frame_into((size, b"x"), &mut buffer, 100).expect_err("invalid size");
        assert!(!error.is_permanent(), "{error}");
        assert!(buffer.is_empty());
    }
    let cut = read_frame_into((90 << 20, &[1; 70_000]), &mut buffer, 100 << 20);
    assert!(cut.is_err());
    assert!(buffer.len() <= 2 * 70_000, "{}", buffer.len());
}

#[test]
fn response_of_another_protocol_names_the_likely_cause() {
    // "HTTP" as a length.
    let size = i32::from_be_bytes(*b"HTTP");
    let mut buffer = Vec::new();
    let error = read_frame_into((size, b"/1.1 400"), &mut buffer, 100).expect_err("too long");
    let text = error.to_string();
    assert!(
        text.contains("check that this is the port of a broker"),
        "{text}"
    );
}

#[test]
fn refused_connection_reports_unresponsive_broker() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let security = Security {
        tls: None,
        sasl: None,
    };
    let security = Arc::new(BrokerSecurity::new(&security).expect("valid"));
    let connected = BrokerStream::connect(&security, ("127.0.0.1", port), Duration::from_secs(5));
    let error = connected.map(|_| ()).expect_err("nothing listens there");
    let expected = format!("no broker responds at 127.0.0.1:{port} (connection refused)");
    assert_eq!(error.to_string(), expected);
    assert!(!error.is_permanent());
}
