//! Signs tokens of tests.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use weir_identity::Algorithm;

/// A key pair, or a secret.
pub(crate) enum Signer {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(EcdsaKeyPair, Algorithm),
    Ed25519(Ed25519KeyPair),
    Secret(Vec<u8>),
}

impl Signer {
    /// Generates a key for an algorithm.
    pub(crate) fn generate(algorithm: Algorithm) -> Self {
        let ecdsa = |parameters| EcdsaKeyPair::generate(parameters).unwrap();
        match algorithm {
            Algorithm::Hs256 => Self::Secret(b"0123456789abcdef0123456789abcdef".to_vec()),
            Algorithm::Es256 => Self::Ecdsa(ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING), algorithm),
            Algorithm::Es384 => Self::Ecdsa(ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING), algorithm),
            Algorithm::EdDsa => Self::Ed25519(Ed25519KeyPair::generate().unwrap()),
            _ => Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())),
        }
    }

    /// Returns the public key as JWK without `kid` and `alg`.
    pub(crate) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Rsa(pair) => {
                // RSAPublicKey (RFC 8017, A.1.1) of 2048 bits: both integers have a fixed place.
                let der = pair.public_key().as_ref();
                assert_eq!((der.len(), &der[..9]), (270, &RSA_HEADER[..]));
                let (n, e) = (&der[9..265], &der[267..]);
                json!({"kty": "RSA", "n": text(n), "e": text(e)})
            }
            Self::Ecdsa(pair, algorithm) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let is_256 = *algorithm == Algorithm::Es256;
                let curve = if is_256 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": text(x), "y": text(y)})
            }
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())})
            }
            Self::Secret(secret) => json!({"kty": "oct", "k": text(secret)}),
        }
    }

    /// Returns a token with a header and claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        self.token_of_texts(&header.to_string(), &claims.to_string())
    }

    /// Returns a token with texts that need not be JSON. `alg` selects the hash of RSA.
    pub(crate) fn token_of_texts(&self, header: &str, claims: &str) -> String {
        let (first, second) = (
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims),
        );
        let message = format!("{first}.{second}");
        let named: Option<Value> = serde_json::from_str(header).ok();
        let named = named.and_then(|header| Algorithm::from_name(header["alg"].as_str()?));
        let signature = self.sign(named.unwrap_or(Algorithm::Rs256), message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut bytes = vec![0; pair.public_modulus_len()];
                pair.sign(rsa_encoding(algorithm), &random, message, &mut bytes)
                    .unwrap();
                bytes
            }
            Self::Ecdsa(pair, _) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Secret(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::sign(&key, message).as_ref().to_vec()
            }
        }
    }
}

const RSA_HEADER: [u8; 9] = [0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0x00];

fn rsa_encoding(algorithm: Algorithm) -> &'static dyn RsaEncoding {
    match algorithm {
        Algorithm::Rs384 => &RSA_PKCS1_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_SHA512,
        Algorithm::Ps256 => &RSA_PSS_SHA256,
        Algorithm::Ps384 => &RSA_PSS_SHA384,
        Algorithm::Ps512 => &RSA_PSS_SHA512,
        _ => &RSA_PKCS1_SHA256,
    }
}

/// Returns the PEM text of a public key.
pub(crate) fn pem(signer: &Signer) -> String {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    let der: PublicKeyX509Der<'_> = match signer {
        Signer::Rsa(pair) => pair.public_key().as_der().unwrap(),
        Signer::Ecdsa(pair, _) => pair.public_key().as_der().unwrap(),
        Signer::Ed25519(pair) => pair.public_key().as_der().unwrap(),
        Signer::Secret(_) => panic!("a secret has no public key"),
    };
    let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
}

/// Public RSA key of 1024 bits, in base64.
pub(crate) const SHORT_RSA_KEY: &str = "\
    MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDN/mUuD3ZD/DJ6wIrfjb86qxMEJ7Doa35UOgkXM10K\
    HUlnvoqOGuQBVSZaxJiFjYzunnxZzs/jAPCpbmsVbMQXfTpeKAyvuct57OiHBxlUZi7bHwEAIh7YPH+d\
    F+7amARqO9s7n2SsJquNOmUHYM/ji9kN3kQ0HnkMiurhT7XpOwIDAQAB";

/// Public key of the curve P-521, in base64.
pub(crate) const P521_KEY: &str = "\
    MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQB9RhkrhK6oYBrSn2GrGegsLaIhebWbdttJG6K3d//4wYz\
    uIW2eRKEY1tamxhDwJFthKr4nnDlvPO+ws5E7XW5VZMAT44FmJr5GdI8e2WU3dd1mct5p1UBikdvUIhk\
    Ig862SfBnPvLxmTl0BuePE9lif6A4eEsyFHylqpc17lw2wQosdo=";
