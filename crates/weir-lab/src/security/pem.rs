//! Writer of PEM texts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Returns a text with one section.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let body = BASE64_STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = &*body;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_BYTES));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn written_text_is_read_back() {
        for length in [1, 48, 49, 255] {
            let der = vec![7; length];
            let text = encode("CERTIFICATE", &der);
            assert!(text.lines().all(|line| line.len() <= LINE_BYTES), "{text}");
            let read = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
            assert_eq!(read.as_ref(), der);
        }
    }
}
