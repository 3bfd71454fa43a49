use rustls::version::{TLS12, TLS13};
use weir_security::{KafkaSettings, Security, TlsVersion};

use super::*;
use crate::secure::test_broker::{
    AUTHORITY, SECOND, SERVER, TestBroker, TestTls, identity, request, trusting,
};

const TLS_1_3: TestTls = TestTls {
    version: &TLS13,
    needs_client_certificate: false,
};
const TLS_1_2: TestTls = TestTls {
    version: &TLS12,
    needs_client_certificate: false,
};

fn context(security: Security) -> LinkContext {
    let config = LeanConfig {
        kafka: KafkaSettings {
            security: security.into(),
            ..KafkaSettings::plaintext("unused")
        },
        ..LeanConfig::default()
    };
    LinkContext::new(&config).expect("valid settings")
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("runtime");
    runtime.block_on(work)
}

async fn open(
    context: &LinkContext,
    broker: &TestBroker,
    host: &str,
) -> Result<BrokerLink, LeanError> {
    let address = BrokerAddress {
        host: host.into(),
        socket: broker.address,
    };
    BrokerLink::open(context, &address, None, 8 << 20, Duration::from_secs(10)).await
}

/// Requests `count` bytes and checks them. Returns the number of bytes read from the socket.
async fn fetch(
    link: &mut BrokerLink,
    context: &LinkContext,
    count: u32,
) -> Result<usize, LeanError> {
    let write = |out: &mut BytesMut, id| {
        out.extend_from_slice(&request(id, count));
        Ok(())
    };
    let mut body = Vec::new();
    let read = |bytes: &[u8]| {
        body.extend_from_slice(bytes);
        Ok(())
    };
    let mut wire = 0;
    link.exchange(context, Duration::ZERO, write, read, |bytes| wire += bytes)
        .await?;
    assert!(body.iter().copied().eq((0..count).map(|index| index as u8)));
    Ok(wire)
}

/// Connects and requests one byte.
fn attempt(tls: Option<TestTls>, security: Security, host: &str) -> Result<(), LeanError> {
    let broker = TestBroker::start(tls, 1, usize::MAX);
    let context = context(security);
    let outcome = block_on(async {
        let mut link = open(&context, &broker, host).await?;
        fetch(&mut link, &context, 1).await
    });
    broker.join();
    outcome.map(drop)
}

fn failure(tls: Option<TestTls>, security: Security, host: &str) -> TlsFailure {
    match attempt(tls, security, host) {
        Err(error @ LeanError::Encryption { .. }) => {
            assert!(error.is_rejection(), "{error}");
            let LeanError::Encryption { failure, .. } = error else {
                unreachable!("matched above");
            };
            *failure
        }
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn responses_arrive_intact_and_leave_no_buffers() {
    let sizes = [0, 1, 16_383, 16_384, 40_000, 600_000];
    for tls in [None, Some(TLS_1_2), Some(TLS_1_3)] {
        for piece_bytes in [usize::MAX, 1009] {
            let broker = TestBroker::start(tls, 1, piece_bytes);
            let security = tls.map_or_else(Security::default, |_| trusting(AUTHORITY));
            let context = context(security);
            block_on(async {
                let mut link = open(&context, &broker, "localhost").await.expect("opens");
                for size in sizes {
                    let wire = fetch(&mut link, &context, size).await.expect("responds");
                    // Size prefix and correlation id, and with TLS the records' overhead.
                    let least = size as usize + 8;
                    let most = least + (least / 16_384 + 1) * 64;
                    match tls {
                        None => assert_eq!(wire, least),
                        Some(_) if size > 0 => assert!((least..most + 4096).contains(&wire)),
                        Some(_) => {}
                    }
                }
                assert_eq!(link.frames.buffered_bytes(), 0);
                if let Transport::Tls(tls) = &link.transport {
                    assert_eq!(tls.buffered_bytes(), 0);
                }
            });
            broker.join();
        }
    }
}

#[test]
fn unknown_authority_is_rejected() {
    for tls in [TLS_1_2, TLS_1_3] {
        let found = failure(Some(tls), trusting(SECOND), "localhost");
        assert_eq!(found, TlsFailure::UnknownAuthority);
    }
}

#[test]
fn trusted_server_certificate_needs_no_authority() {
    assert_eq!(
        attempt(Some(TLS_1_3), trusting(SERVER), "localhost"),
        Ok(())
    );
    let found = failure(Some(TLS_1_3), trusting(SERVER), "other");
    assert!(matches!(found, TlsFailure::HostName { .. }), "{found}");
}

#[test]
fn host_name_is_verified_unless_turned_off() {
    let mut security = trusting(AUTHORITY);
    let found = failure(Some(TLS_1_3), security.clone(), "other-host");
    let text = found.to_string();
    assert!(
        text.contains("not for host \"other-host\" but for"),
        "{text}"
    );
    assert!(text.contains("localhost"), "{text}");
    assert_eq!(
        attempt(Some(TLS_1_3), security.clone(), "127.0.0.1"),
        Ok(())
    );
    let tls = security.tls.as_mut().expect("TLS");
    tls.verify_hostname = false;
    assert_eq!(
        attempt(Some(TLS_1_3), security.clone(), "other-host"),
        Ok(())
    );
    // The chain is verified nevertheless.
    security.tls.as_mut().expect("TLS").roots = trusting(SECOND).tls.expect("TLS").roots;
    let found = failure(Some(TLS_1_3), security, "other-host");
    assert_eq!(found, TlsFailure::UnknownAuthority);
}

#[test]
fn missing_client_certificate_is_a_rejection() {
    for version in [&TLS12, &TLS13] {
        let tls = TestTls {
            version,
            needs_client_certificate: true,
        };
        let found = failure(Some(tls), trusting(AUTHORITY), "localhost");
        assert!(
            matches!(
                found,
                TlsFailure::ClientCertificate { .. } | TlsFailure::Incompatible { .. }
            ),
            "{found}"
        );
        let mut security = trusting(AUTHORITY);
        security.tls.as_mut().expect("TLS").identity = Some(identity());
        assert_eq!(attempt(Some(tls), security, "localhost"), Ok(()));
    }
}

#[test]
fn protocol_without_common_version_is_a_rejection() {
    let mut security = trusting(AUTHORITY);
    security.tls.as_mut().expect("TLS").protocols = vec![TlsVersion::V1_2];
    let found = failure(Some(TLS_1_3), security, "localhost");
    assert!(matches!(found, TlsFailure::Incompatible { .. }), "{found}");
}

#[test]
fn listener_without_tls_is_recognised_and_the_reverse() {
    let found = failure(None, trusting(AUTHORITY), "localhost");
    assert_eq!(found, TlsFailure::NotTls);
    let found = failure(Some(TLS_1_3), Security::default(), "localhost");
    assert_eq!(found, TlsFailure::Required);
}

#[test]
fn connections_resume_sessions() {
    let broker = TestBroker::start(Some(TLS_1_3), 3, usize::MAX);
    let context = context(trusting(AUTHORITY));
    let kinds = block_on(async {
        let mut kinds = Vec::new();
        for _ in 0..3 {
            let mut link = open(&context, &broker, "localhost").await.expect("opens");
            fetch(&mut link, &context, 1).await.expect("responds");
            if let Transport::Tls(tls) = &link.transport {
                kinds.push(tls.handshake_kind());
            }
        }
        kinds
    });
    broker.join();
    let (full, resumed) = (rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed);
    assert_eq!(kinds, [Some(full), Some(resumed), Some(resumed)]);
}
