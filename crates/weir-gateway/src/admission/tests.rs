use super::*;

fn address(number: u32) -> IpAddr {
    IpAddr::from(number.to_be_bytes())
}

fn admission(change: impl FnOnce(&mut GatewayLimits)) -> Admission {
    let mut limits = GatewayLimits::default();
    change(&mut limits);
    Admission::new(&limits, Origins::default(), 10)
}

#[test]
fn nothing_is_counted_without_limits() {
    let admission = admission(|_| {});
    for number in 0..100 {
        assert_eq!(admission.enter(address(number)), Ok(0));
        assert_eq!(admission.begin_session(0, 0), Ok(()));
        assert_eq!(admission.request(0, 0), Ok(()));
    }
    assert!(admission.addresses.is_none());
}

#[test]
fn connections_and_sessions_per_address_are_limited() {
    let admission = admission(|limits| {
        limits.per_address.connections = 2;
        limits.per_address.sessions = 1;
    });
    let id = admission.enter(address(7)).unwrap();
    assert_eq!(admission.enter(address(7)), Ok(id));
    assert_eq!(
        admission.enter(address(7)),
        Err(AdmissionLimit::AddressConnections)
    );
    assert!(admission.enter(address(8)).is_ok());
    assert_eq!(admission.begin_session(id, 0), Ok(()));
    assert_eq!(
        admission.begin_session(id, 0),
        Err(AdmissionLimit::AddressSessions)
    );
    admission.leave(id);
    assert_eq!(admission.enter(address(7)), Ok(id));
    admission.end_session(id);
    assert_eq!(admission.begin_session(id, 0), Ok(()));
    let hits = [
        AdmissionLimit::AddressConnections,
        AdmissionLimit::AddressSessions,
    ]
    .map(|limit| admission.hits(limit));
    assert_eq!(hits, [1, 1]);
}

#[test]
fn ipv6_counts_by_prefix_and_mapped_as_ipv4() {
    let admission = admission(|limits| limits.per_address.connections = 9);
    let enter = |text: &str| admission.enter(text.parse().unwrap()).unwrap();
    assert_eq!(enter("2001:db8:1:2::1"), enter("2001:db8:1:2:ffff::9"));
    assert_ne!(enter("2001:db8:1:2::1"), enter("2001:db8:1:3::1"));
    assert_eq!(enter("::ffff:10.0.0.1"), enter("10.0.0.1"));
}

#[test]
fn rates_are_limited_per_address_and_in_total() {
    let admission = admission(|limits| {
        limits.per_address.requests_per_second = 1.0;
        limits.requests_per_second = 10.0;
        limits.per_address.sessions_per_second = 1.0;
        limits.sessions_per_second = 6.0;
    });
    let tickets = [1, 2, 3].map(|number| admission.enter(address(number)).unwrap());
    let allowed = |id| (0..50).filter(|_| admission.request(id, 0).is_ok()).count();
    assert_eq!(tickets.map(allowed), [10, 10, 0]);
    let begun = |id| {
        (0..50)
            .filter(|_| admission.begin_session(id, 0).is_ok())
            .count()
    };
    assert_eq!(tickets.map(begun), [10, 2, 0]);
    assert_eq!(admission.hits(AdmissionLimit::RequestRate), 50 - 40);
    assert_eq!(
        admission.hits(AdmissionLimit::AddressSessionRate),
        40 + 40 + 40
    );
    assert!(admission.request(tickets[2], 1_000).is_ok());
    // A rejection by the total rate registers no session at the address.
    let mut addresses = lock(admission.addresses.as_ref().unwrap());
    let limits = PerAddress {
        sessions: 3,
        ..PerAddress::default()
    };
    let more = (0..5).filter(|_| addresses.begin_session(tickets[1], &limits, 0).is_ok());
    assert_eq!(more.count(), 1);
}

#[test]
fn idle_addresses_are_evicted() {
    let mut addresses = AddressTable::new(10);
    let kept = addresses.enter(address(0), 0).unwrap();
    for number in 1..1_000 {
        let id = addresses.enter(address(number), 0).unwrap();
        addresses.update(id, |entry| entry.connections -= 1);
        assert!(addresses.len() <= 10);
    }
    assert_eq!(addresses.enter(address(0), 0), Some(kept));
    // This address was idle and is in use again; its old list entry must not evict it.
    let back = addresses.enter(address(999), 0).unwrap();
    for number in 2_000..2_100 {
        let id = addresses.enter(address(number), 0).unwrap();
        addresses.update(id, |entry| entry.connections -= 1);
    }
    assert_eq!(addresses.enter(address(999), 0), Some(back));
}
