//! TLS on both sides: one proxy speaks it with clients, and another, in front of it, with "brokers".

use super::support::*;

#[test]
fn records_pass_through_tls_on_either_side() {
    let copies = tempfile::tempdir().expect("a folder");
    let copy = |name: &str| {
        let to = copies.path().join(name);
        std::fs::copy(fixture(name), &to).expect("a copy");
        to.display().to_string()
    };
    let (certificate, key, authority) = (copy("server.pem"), copy("server.key"), copy("ca.pem"));
    let inner = proxy(&format!(
        "advertised_host = \"localhost\"\n[cluster.tls]\ncertificate = \"{certificate}\"\n\
         key = \"{key}\"\n"
    ));
    let upstream = format!("localhost:{}", inner.address.port());
    let trusting = format!("[cluster.upstream_tls]\nauthorities = \"{authority}\"\n");
    let outer = proxy_to(&upstream, &trusting);
    await_that("TLS to be trusted", || outer.get().ready());
    let bootstrap = outer.bootstrap();
    let topic = topic(&bootstrap, "tls", 2, 1);
    let values: Vec<_> = numbered("sealed", 300)
        .into_iter()
        .map(|value| value + &"x".repeat(2_000))
        .collect();
    produce(&settings(&bootstrap), &topic, &values);
    assert_eq!(consume(&bootstrap, &topic, 300), values);

    // Who does not speak TLS gets nowhere, and who does not trust neither.
    let mut plain = Raw::connect(inner.address);
    plain.send(&request(18, 0, 1, &[]));
    plain.until_closed();
    let distrusting = format!(
        "[cluster.upstream_tls]\nauthorities = \"{}\"\n",
        copy("second.pem")
    );
    let outer = proxy_to(&upstream, &distrusting);
    let mut raw = Raw::connect(outer.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    assert!(!outer.get().ready());
}

#[test]
fn clients_without_a_certificate_get_nowhere_where_one_is_wanted() {
    let inner = proxy(&format!(
        "advertised_host = \"localhost\"\n[cluster.tls]\ncertificate = \"{0}\"\nkey = \"{1}\"\n\
         client_authorities = \"{2}\"\n",
        fixture("server.pem").display(),
        fixture("server.key").display(),
        fixture("ca.pem").display(),
    ));
    let upstream = format!("localhost:{}", inner.address.port());
    let without = proxy_to(&upstream, "[cluster.upstream_tls]\ninsecure = true\n");
    let mut raw = Raw::connect(without.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    inner.await_metric("weir_proxy_requests_total", 0);
}
