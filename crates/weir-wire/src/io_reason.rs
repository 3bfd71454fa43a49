//! Words for errors of sockets, without the texts of the operating system and its numbers.

use std::io::{Error, ErrorKind};

/// Returns why a connection failed, as a short phrase.
pub fn io_reason(error: &Error) -> String {
    let known = match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused",
        ErrorKind::ConnectionReset => "connection reset by the other side",
        ErrorKind::ConnectionAborted => "connection aborted",
        ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => "closed by the other side",
        // A socket with a timeout reports either, depending on the platform.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "no response in time",
        ErrorKind::HostUnreachable => "no route to the host",
        ErrorKind::NetworkUnreachable => "network unreachable",
        ErrorKind::PermissionDenied => "not permitted by this machine, perhaps by its firewall",
        _ => return other(error.to_string()),
    };
    known.to_owned()
}

/// Names of hosts have no error kind of their own.
fn other(text: String) -> String {
    match text.strip_prefix("failed to lookup address information: ") {
        Some("Temporary failure in name resolution") => {
            "host name not found: the name server does not respond".to_owned()
        }
        Some(_) => "host name not found".to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_no_error_numbers() {
        let refused = Error::from_raw_os_error(111);
        assert!(refused.to_string().contains("111"), "{refused}");
        assert_eq!(io_reason(&refused), "connection refused");
        assert_eq!(
            io_reason(&Error::from_raw_os_error(11)),
            "no response in time"
        );
    }

    #[test]
    fn unknown_hosts_are_named_so() {
        let error =
            |reason| Error::other(format!("failed to lookup address information: {reason}"));
        let reason = io_reason(&error("Name or service not known"));
        assert_eq!(reason, "host name not found");
        let reason = io_reason(&error("Temporary failure in name resolution"));
        assert_eq!(
            reason,
            "host name not found: the name server does not respond"
        );
    }

    #[test]
    fn other_texts_stay() {
        assert_eq!(
            io_reason(&Error::other("is not HOST:PORT")),
            "is not HOST:PORT"
        );
    }
}
