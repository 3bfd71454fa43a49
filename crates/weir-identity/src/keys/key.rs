//! One key, with a verifier for each algorithm that may be used with it.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    VerificationAlgorithm,
};

use crate::algorithm::Algorithm;

/// Key that verifies signatures. It is bound to its algorithms when it is read, so that a token
/// cannot choose another one.
pub struct VerificationKey {
    id: Option<Box<str>>,
    verifiers: Box<[(Algorithm, SignatureVerifier)]>,
    fingerprint: [u8; 32],
}

/// A key as one algorithm uses it.
pub(super) enum SignatureVerifier {
    Secret(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

impl VerificationKey {
    /// Creates a key; `material` are the bytes that distinguish it.
    pub(super) fn new(
        id: Option<&str>,
        material: &[u8],
        verifiers: Vec<(Algorithm, SignatureVerifier)>,
    ) -> Self {
        let mut text = id.unwrap_or_default().as_bytes().to_vec();
        text.push(0);
        text.extend_from_slice(material);
        for (algorithm, _) in &verifiers {
            text.extend_from_slice(algorithm.name().as_bytes());
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, &text).as_ref());
        Self {
            id: id.map(Into::into),
            verifiers: verifiers.into(),
            fingerprint,
        }
    }

    /// Returns the key ID (`kid`).
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns `true` if tokens with this algorithm may be verified with the key.
    pub fn supports(&self, algorithm: Algorithm) -> bool {
        self.verifier(algorithm).is_some()
    }

    /// Returns `true` if the signature is valid and the key supports the algorithm. Secrets are
    /// compared in constant time.
    pub fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match self.verifier(algorithm) {
            Some(SignatureVerifier::Secret(key)) => hmac::verify(key, message, signature).is_ok(),
            Some(SignatureVerifier::Public(key)) => key.verify_sig(message, signature).is_ok(),
            None => false,
        }
    }

    /// Returns a hash of the key, its ID and its algorithms.
    pub(super) fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    fn verifier(&self, algorithm: Algorithm) -> Option<&SignatureVerifier> {
        let mut verifiers = self.verifiers.iter();
        verifiers.find_map(|(one, verifier)| (*one == algorithm).then_some(verifier))
    }
}

impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithms = self.verifiers.iter().map(|(algorithm, _)| algorithm.name());
        f.debug_struct("VerificationKey")
            .field("id", &self.id)
            .field("algorithms", &algorithms.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Returns the parameters of an RSA algorithm.
pub(super) fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// Returns the verification algorithm of a public-key algorithm.
pub(super) fn verification(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
        Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDsa => &ED25519,
        Algorithm::Hs256 => return None,
        rsa => rsa_parameters(rsa)?,
    })
}
