//! Verification of a broker's certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

/// Verifier that always checks the chain and its validity, and the host name if required. As in the
/// Java client and in OpenSSL, a certificate that is itself in the list of trusted ones needs no
/// authority: it may be a self-signed one of a broker.
#[derive(Debug)]
pub(super) struct BrokerVerifier {
    provider: Arc<CryptoProvider>,
    roots: RootCertStore,
    trusted: Vec<CertificateDer<'static>>,
    verify_hostname: bool,
}

impl BrokerVerifier {
    pub(super) fn new(
        provider: Arc<CryptoProvider>,
        roots: RootCertStore,
        trusted: Vec<CertificateDer<'static>>,
        verify_hostname: bool,
    ) -> Self {
        Self {
            provider,
            roots,
            trusted,
            verify_hostname,
        }
    }

    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        parsed: &ParsedCertificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let verified = verify_server_cert_signed_by_trust_anchor(
            parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        );
        match verified {
            // Both are found after the validity was checked.
            Err(Error::InvalidCertificate(error))
                if is_untrusted_or_authority(&error) && self.trusted.contains(certificate) =>
            {
                Ok(())
            }
            verified => verified,
        }
    }
}

/// Returns `true` if the error is that the chain has no trusted end, or that the certificate of a
/// server may also sign others, as self-signed ones usually may.
fn is_untrusted_or_authority(error: &CertificateError) -> bool {
    match error {
        CertificateError::UnknownIssuer => true,
        CertificateError::Other(OtherError(error)) => {
            let error = error.downcast_ref::<webpki::Error>();
            matches!(error, Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

impl ServerCertVerifier for BrokerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        self.verify_chain(certificate, &parsed, intermediates, now)?;
        if self.verify_hostname {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::secure::TlsFailure;
    use crate::secure::test_broker::{AUTHORITY, SERVER, certificate};

    /// Verifies the server's certificate for `host` in a year.
    fn verify(trusted: &[u8], host: &str, year: u64) -> Result<(), Error> {
        let trusted = certificate(trusted);
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = BrokerVerifier::new(provider, roots, vec![trusted], true);
        let name = ServerName::try_from(host.to_owned()).expect("a name");
        let now = Duration::from_secs((year - 1970) * 31_557_600);
        let now = UnixTime::since_unix_epoch(now);
        let verified = verifier.verify_server_cert(&certificate(SERVER), &[], &name, &[], now);
        verified.map(drop)
    }

    #[test]
    fn validity_is_checked_for_trusted_certificates_too() {
        for trusted in [AUTHORITY, SERVER] {
            assert_eq!(verify(trusted, "localhost", 2030), Ok(()));
            for year in [2010, 2130] {
                let error = verify(trusted, "localhost", year).expect_err("not valid");
                let failure = TlsFailure::from_rustls(&error, "localhost");
                let is_validity = matches!(
                    failure,
                    TlsFailure::Expired { .. } | TlsFailure::NotValidYet
                );
                assert!(is_validity, "{failure}");
            }
        }
        assert!(verify(SERVER, "other", 2030).is_err());
    }
}
