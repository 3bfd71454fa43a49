//! Parsing of verification keys: JSON Web Keys (RFC 7517), PEM and shared secrets.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ParsedPublicKey, RsaPublicKeyComponents};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Map, Value};
use thiserror::Error;

use super::key::{SignatureVerifier, VerificationKey, rsa_parameters, verification};
use crate::algorithm::{Algorithm, AlgorithmSet, KeyFamily};

/// Longest key ID, in bytes.
const KEY_ID_BYTES_MAX: usize = 1024;
/// Shortest shared secret, in bytes (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;
/// Length in bytes of the shortest public RSA key of 2048 bits, with exponent 3, in DER.
const RSA_DER_BYTES_MIN: usize = 292;
/// Accepted sizes of RSA keys, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Reason why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe the variants
pub enum KeyError {
    #[error("not an object with a string \"kty\"")]
    Malformed,
    #[error("\"kid\" is not a string of at most 1024 bytes")]
    KeyId,
    #[error("key type is neither RSA, EC nor OKP; shared secrets are not accepted in key sets")]
    KeyType,
    #[error("curve is neither P-256, P-384 nor Ed25519")]
    Curve,
    #[error("\"use\" or \"key_ops\" excludes verification")]
    Use,
    #[error("no configured algorithm fits the key")]
    Algorithm,
    #[error("RSA key has fewer than 2048 or more than 8192 bits")]
    RsaSize,
    #[error("key values are missing or invalid")]
    Values,
    #[error("not exactly one public key in PEM (BEGIN PUBLIC KEY)")]
    Pem,
    #[error("secret is shorter than 32 bytes")]
    ShortSecret,
}

impl VerificationKey {
    /// Parses one key of a key set, for those `allowed` algorithms that fit it.
    pub(super) fn from_jwk(jwk: &Value, allowed: AlgorithmSet) -> Result<Self, KeyError> {
        let jwk = jwk.as_object().ok_or(KeyError::Malformed)?;
        let id = key_id(jwk)?;
        if !can_verify(jwk) {
            return Err(KeyError::Use);
        }
        let family = family(jwk)?;
        let allowed = match jwk.get("alg") {
            None => allowed,
            Some(name) => {
                let named = name.as_str().and_then(Algorithm::from_name);
                named
                    .filter(|one| allowed.contains(*one))
                    .into_iter()
                    .collect()
            }
        };
        match family {
            KeyFamily::Rsa => {
                let (n, e) = (decode_member(jwk, "n")?, decode_member(jwk, "e")?);
                rsa_key(id, &n, &e, allowed)
            }
            KeyFamily::P256 => curve_key(id, family, &uncompressed_point(jwk, 32)?, allowed),
            KeyFamily::P384 => curve_key(id, family, &uncompressed_point(jwk, 48)?, allowed),
            KeyFamily::Ed25519 => {
                let x = decode_member(jwk, "x")?;
                let x = (x.len() == 32).then_some(x).ok_or(KeyError::Values)?;
                curve_key(id, family, &x, allowed)
            }
            KeyFamily::Secret => Err(KeyError::KeyType),
        }
    }

    /// Parses a public key in PEM (`BEGIN PUBLIC KEY`), for those `allowed` algorithms that fit it.
    pub fn from_pem(pem: &[u8], allowed: AlgorithmSet) -> Result<Self, KeyError> {
        let mut keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem);
        let (Some(Ok(der)), None) = (keys.next(), keys.next()) else {
            return Err(KeyError::Pem);
        };
        let der: &[u8] = der.as_ref();
        let curves = [
            (KeyFamily::P256, P256_HEADER, 65),
            (KeyFamily::P384, P384_HEADER, 97),
            (KeyFamily::Ed25519, ED25519_HEADER, 32),
        ];
        for (family, header, len) in curves {
            if let Some(key) = der.strip_prefix(header).filter(|key| key.len() == len) {
                return curve_key(None, family, key, allowed);
            }
        }
        if !der
            .windows(RSA_OID.len())
            .take(16)
            .any(|bytes| bytes == RSA_OID)
        {
            return Err(KeyError::Curve);
        }
        // The cryptographic library checks the upper bound of the size with each signature.
        if der.len() < RSA_DER_BYTES_MIN {
            return Err(KeyError::RsaSize);
        }
        let fitting = allowed.of_family(KeyFamily::Rsa);
        let fitting = fitting.filter_map(|one| Some((one, verification(one)?)));
        let verifiers = fitting.map(|(one, parameters)| {
            let key = ParsedPublicKey::new(parameters, der).map_err(|_| KeyError::Pem)?;
            Ok((one, SignatureVerifier::Public(key)))
        });
        with_verifiers(None, der, verifiers.collect::<Result<_, _>>()?)
    }

    /// Creates an HMAC key from a secret that Weir shares with the issuer.
    pub fn from_secret(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyError::ShortSecret);
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let verifiers = vec![(Algorithm::Hs256, SignatureVerifier::Secret(Box::new(key)))];
        with_verifiers(None, secret, verifiers)
    }
}

// Headers of `SubjectPublicKeyInfo` (RFC 5280) up to the key itself; they have a fixed length.
const P256_HEADER: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P384_HEADER: &[u8] = &[
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
    0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];
const ED25519_HEADER: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Object identifier of RSA keys (RFC 8017, A.1).
const RSA_OID: &[u8] = &[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01,
];

fn key_id(jwk: &Map<String, Value>) -> Result<Option<&str>, KeyError> {
    match jwk.get("kid") {
        None => Ok(None),
        Some(Value::String(id)) if id.len() <= KEY_ID_BYTES_MAX => Ok(Some(id)),
        Some(_) => Err(KeyError::KeyId),
    }
}

fn can_verify(jwk: &Map<String, Value>) -> bool {
    let is_signature = jwk.get("use").is_none_or(|purpose| purpose == "sig");
    let may_verify = jwk.get("key_ops").is_none_or(|operations| {
        let operations = operations.as_array().map(Vec::as_slice).unwrap_or_default();
        operations.iter().any(|operation| operation == "verify")
    });
    is_signature && may_verify
}

fn family(jwk: &Map<String, Value>) -> Result<KeyFamily, KeyError> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let kind = text("kty").ok_or(KeyError::Malformed)?;
    match (kind, text("crv")) {
        ("RSA", _) => Ok(KeyFamily::Rsa),
        ("EC", Some("P-256")) => Ok(KeyFamily::P256),
        ("EC", Some("P-384")) => Ok(KeyFamily::P384),
        ("OKP", Some("Ed25519")) => Ok(KeyFamily::Ed25519),
        ("EC" | "OKP", _) => Err(KeyError::Curve),
        _ => Err(KeyError::KeyType),
    }
}

/// Decodes a member of a key in base64url.
fn decode_member(jwk: &Map<String, Value>, name: &str) -> Result<Vec<u8>, KeyError> {
    let text = jwk
        .get(name)
        .and_then(Value::as_str)
        .ok_or(KeyError::Values)?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyError::Values)
}

/// Returns the coordinates of a key as an uncompressed elliptic-curve point.
fn uncompressed_point(jwk: &Map<String, Value>, len: usize) -> Result<Vec<u8>, KeyError> {
    let (x, y) = (decode_member(jwk, "x")?, decode_member(jwk, "y")?);
    match x.len() == len && y.len() == len {
        true => Ok([&[4][..], &x, &y].concat()),
        false => Err(KeyError::Values),
    }
}

fn rsa_key(
    id: Option<&str>,
    n: &[u8],
    e: &[u8],
    allowed: AlgorithmSet,
) -> Result<VerificationKey, KeyError> {
    let leading_zeros = n.first().map_or(8, |first| first.leading_zeros() as usize);
    if !RSA_BITS.contains(&(n.len() * 8).saturating_sub(leading_zeros)) {
        return Err(KeyError::RsaSize);
    }
    let fitting = allowed.of_family(KeyFamily::Rsa);
    let fitting = fitting.filter_map(|one| Some((one, rsa_parameters(one)?)));
    let verifiers = fitting.map(|(one, parameters)| {
        let key = RsaPublicKeyComponents { n, e }.to_parsed_public_key(parameters);
        let key = key.map_err(|_| KeyError::Values)?;
        Ok((one, SignatureVerifier::Public(key)))
    });
    with_verifiers(id, &[n, e].concat(), verifiers.collect::<Result<_, _>>()?)
}

/// Creates a key on an elliptic curve. Each of these families has one algorithm.
fn curve_key(
    id: Option<&str>,
    family: KeyFamily,
    material: &[u8],
    allowed: AlgorithmSet,
) -> Result<VerificationKey, KeyError> {
    let fitting = allowed.of_family(family);
    let fitting = fitting.filter_map(|one| Some((one, verification(one)?)));
    let verifiers = fitting.map(|(one, parameters)| {
        let key = ParsedPublicKey::new(parameters, material).map_err(|_| KeyError::Values)?;
        Ok((one, SignatureVerifier::Public(key)))
    });
    with_verifiers(id, material, verifiers.collect::<Result<_, _>>()?)
}

fn with_verifiers(
    id: Option<&str>,
    material: &[u8],
    verifiers: Vec<(Algorithm, SignatureVerifier)>,
) -> Result<VerificationKey, KeyError> {
    match verifiers.is_empty() {
        true => Err(KeyError::Algorithm),
        false => Ok(VerificationKey::new(id, material, verifiers)),
    }
}
