//! Mistakes in the settings of a client, and what an error about each must contain.

use weir_lab::ClientFault;

/// A mistake; `None` is none.
pub(crate) type Mistake = Option<ClientFault>;

/// Mistakes of the table; a mode skips those it does not have.
pub(crate) const MISTAKES: [Mistake; 8] = [
    None,
    Some(ClientFault::WrongPassword),
    Some(ClientFault::OtherAuthority),
    Some(ClientFault::OtherHost),
    Some(ClientFault::ExpiredServer),
    Some(ClientFault::ExpiredClient),
    Some(ClientFault::NoClientCertificate),
    Some(ClientFault::NoEncryption),
];

/// Returns texts, one of which an error must contain, in lower case.
pub(crate) fn causes(fault: ClientFault) -> &'static [&'static str] {
    match fault {
        ClientFault::WrongPassword => &["login", "token", "authentication"],
        ClientFault::OtherAuthority => &["certificate", "authority"],
        ClientFault::OtherHost => &["host", "certificate"],
        ClientFault::ExpiredServer => &["expired", "certificate"],
        // The built-in driver reports no reason.
        ClientFault::NoEncryption => &["tls", "ssl", "brokers are down"],
        _ => &["certificate", "alert", "tls"],
    }
}
