//! Decryption with a password: PKCS#5 (PBES2) and the older algorithms of PKCS#12.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::digest::{self, Context};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{hmac, pbkdf2};
use des::TdesEde3;
use des::cipher::{BlockDecrypt, KeyInit};
use rc2::Rc2;

use super::der::{Der, INTEGER, OCTET_STRING};
use super::error::StoreError;

/// Reason why no plain text was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecryptError {
    WrongPassword,
    Unsupported(String),
    Damaged,
}

impl From<super::der::DerError> for DecryptError {
    fn from(_: super::der::DerError) -> Self {
        Self::Damaged
    }
}

impl DecryptError {
    /// Returns the error of a store; `wrong` is the one for a wrong password.
    pub(super) fn or_wrong(self, wrong: StoreError) -> StoreError {
        match self {
            Self::WrongPassword => wrong,
            Self::Unsupported(what) => StoreError::Unsupported { what },
            Self::Damaged => StoreError::Damaged("invalid encryption parameters"),
        }
    }
}

/// Decrypts `data` with the algorithm `oid` and its parameters.
pub(super) fn decrypt(
    oid: &[u8],
    parameters: Der<'_>,
    data: &[u8],
    password: &str,
) -> Result<Vec<u8>, DecryptError> {
    match oid {
        PBES2 => pbes2(parameters, data, password),
        PBE_3DES => {
            let (key, iv) = pkcs12_keys(parameters, password, 24, 8)?;
            let cipher = TdesEde3::new_from_slice(&key).map_err(|_| DecryptError::Damaged)?;
            cbc(data, &iv, |block| cipher.decrypt_block(block.into()))
        }
        PBE_RC2_40 | PBE_RC2_128 => {
            let length = if oid == PBE_RC2_40 { 5 } else { 16 };
            let (key, iv) = pkcs12_keys(parameters, password, length, 8)?;
            let cipher = Rc2::new_with_eff_key_len(&key, length * 8);
            cbc(data, &iv, |block| cipher.decrypt_block(block.into()))
        }
        _ => Err(DecryptError::Unsupported(format!(
            "the encryption algorithm {}",
            dotted(oid)
        ))),
    }
}

fn pbes2(mut parameters: Der<'_>, data: &[u8], password: &str) -> Result<Vec<u8>, DecryptError> {
    let mut parameters = parameters.expect(super::der::SEQUENCE)?;
    let (kdf, kdf_parameters) = parameters.algorithm()?;
    let (cipher, mut cipher_parameters) = parameters.algorithm()?;
    let length = match cipher {
        AES_128_CBC => 16,
        AES_192_CBC | DES_EDE3_CBC => 24,
        AES_256_CBC => 32,
        _ => {
            let what = format!("the cipher {}", dotted(cipher));
            return Err(DecryptError::Unsupported(what));
        }
    };
    let key = pbkdf2_key(kdf, kdf_parameters, password, length)?;
    let iv = cipher_parameters.expect(OCTET_STRING)?.0;
    let algorithm = match cipher {
        AES_128_CBC => &AES_128,
        AES_192_CBC => &AES_192,
        AES_256_CBC => &AES_256,
        _ => {
            let cipher = TdesEde3::new_from_slice(&key).map_err(|_| DecryptError::Damaged)?;
            return cbc(data, iv, |block| cipher.decrypt_block(block.into()));
        }
    };
    aes(algorithm, &key, iv, data)
}

fn aes(
    algorithm: &'static Algorithm,
    key: &[u8],
    iv: &[u8],
    data: &[u8],
) -> Result<Vec<u8>, DecryptError> {
    let iv = <&[u8; 16]>::try_from(iv).map_err(|_| DecryptError::Damaged)?;
    if data.is_empty() || data.len() % 16 != 0 {
        return Err(DecryptError::Damaged);
    }
    let key = UnboundCipherKey::new(algorithm, key).map_err(|_| DecryptError::Damaged)?;
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| DecryptError::Damaged)?;
    let mut plain = data.to_vec();
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    let length = key.decrypt(&mut plain, context);
    let length = length.map_err(|_| DecryptError::WrongPassword)?.len();
    plain.truncate(length);
    Ok(plain)
}

/// Derives a key with PBKDF2.
pub(super) fn pbkdf2_key(
    oid: &[u8],
    mut parameters: Der<'_>,
    password: &str,
    length: usize,
) -> Result<Vec<u8>, DecryptError> {
    if oid != PBKDF2 {
        let what = format!("the key derivation {}", dotted(oid));
        return Err(DecryptError::Unsupported(what));
    }
    let mut parameters = parameters.expect(super::der::SEQUENCE)?;
    let salt = parameters.expect(OCTET_STRING)?.0;
    let iterations = iterations(parameters.unsigned()?)?;
    if parameters.peek() == Some(INTEGER) {
        parameters.unsigned()?; // the key length, which follows from the cipher
    }
    let algorithm = match parameters.is_empty() {
        true => pbkdf2::PBKDF2_HMAC_SHA1,
        false => match parameters.algorithm()?.0 {
            HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
            HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
            HMAC_SHA384 => pbkdf2::PBKDF2_HMAC_SHA384,
            HMAC_SHA512 => pbkdf2::PBKDF2_HMAC_SHA512,
            other => {
                let what = format!("the hash function {}", dotted(other));
                return Err(DecryptError::Unsupported(what));
            }
        },
    };
    let mut key = vec![0; length];
    pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut key);
    Ok(key)
}

/// Returns the key and the initialisation vector of an old PKCS#12 algorithm.
fn pkcs12_keys(
    mut parameters: Der<'_>,
    password: &str,
    key_bytes: usize,
    iv_bytes: usize,
) -> Result<(Vec<u8>, Vec<u8>), DecryptError> {
    let mut parameters = parameters.expect(super::der::SEQUENCE)?;
    let salt = parameters.expect(OCTET_STRING)?.0;
    let count = iterations(parameters.unsigned()?)?;
    let hash = &digest::SHA1_FOR_LEGACY_USE_ONLY;
    let password = bmp(password);
    Ok((
        pkcs12_key(hash, 1, &password, salt, count, key_bytes),
        pkcs12_key(hash, 2, &password, salt, count, iv_bytes),
    ))
}

/// Returns the key that authenticates a PKCS#12 store.
pub(super) fn pkcs12_mac_key(
    algorithm: hmac::Algorithm,
    password: &[u8],
    salt: &[u8],
    count: u32,
) -> Result<Vec<u8>, DecryptError> {
    let hash = algorithm.digest_algorithm();
    let (count, length) = (iterations(count)?, hash.output_len());
    Ok(pkcs12_key(hash, 3, password, salt, count, length))
}

/// Derives a key as RFC 7292, appendix B.2, defines it.
fn pkcs12_key(
    hash: &'static digest::Algorithm,
    purpose: u8,
    password: &[u8],
    salt: &[u8],
    count: NonZeroU32,
    length: usize,
) -> Vec<u8> {
    let block = hash.block_len();
    let repeat = |bytes: &[u8]| {
        let total = bytes.len().div_ceil(block) * block;
        bytes
            .iter()
            .copied()
            .cycle()
            .take(total)
            .collect::<Vec<_>>()
    };
    let mut input = repeat(salt);
    input.extend(repeat(password));
    let mut key = Vec::with_capacity(length);
    while key.len() < length {
        let mut context = Context::new(hash);
        context.update(&vec![purpose; block]);
        context.update(&input);
        let mut output = context.finish();
        for _ in 1..count.get() {
            output = digest::digest(hash, output.as_ref());
        }
        let output = output.as_ref();
        key.extend_from_slice(output);
        let addend: Vec<_> = output.iter().copied().cycle().take(block).collect();
        for chunk in input.chunks_mut(block) {
            // chunk = chunk + addend + 1, as big-endian numbers of one block
            let mut carry = 1;
            for (byte, add) in chunk.iter_mut().zip(&addend).rev() {
                carry += u16::from(*byte) + u16::from(*add);
                *byte = carry as u8;
                carry >>= 8;
            }
        }
    }
    key.truncate(length);
    key
}

/// Decrypts blocks of eight bytes in CBC mode and removes the padding.
fn cbc(
    data: &[u8],
    iv: &[u8],
    decrypt_block: impl Fn(&mut [u8; 8]),
) -> Result<Vec<u8>, DecryptError> {
    let mut previous = <[u8; 8]>::try_from(iv).map_err(|_| DecryptError::Damaged)?;
    if data.is_empty() || data.len() % 8 != 0 {
        return Err(DecryptError::Damaged);
    }
    let mut plain = Vec::with_capacity(data.len());
    for encrypted in data.chunks_exact(8) {
        let mut block = [0; 8];
        block.copy_from_slice(encrypted);
        decrypt_block(&mut block);
        plain.extend(block.iter().zip(previous).map(|(byte, mask)| byte ^ mask));
        previous.copy_from_slice(encrypted);
    }
    let padding = plain.last().map_or(0, |last| usize::from(*last));
    let end = plain
        .len()
        .checked_sub(padding)
        .ok_or(DecryptError::WrongPassword)?;
    let valid =
        (1..=8).contains(&padding) && plain[end..].iter().all(|b| usize::from(*b) == padding);
    if !valid {
        return Err(DecryptError::WrongPassword);
    }
    plain.truncate(end);
    Ok(plain)
}

/// Returns a password as PKCS#12 hashes it: UTF-16 with a terminating zero.
pub(super) fn bmp(password: &str) -> Vec<u8> {
    let units = password.encode_utf16().chain([0]);
    units.flat_map(u16::to_be_bytes).collect()
}

fn iterations(count: u32) -> Result<NonZeroU32, DecryptError> {
    match NonZeroU32::new(count) {
        Some(count) if count.get() <= ITERATIONS_MAX => Ok(count),
        _ => Err(DecryptError::Unsupported(format!(
            "{count} iterations of key derivation (1 to {ITERATIONS_MAX} are possible)"
        ))),
    }
}

/// Returns the dotted form of an object identifier.
pub(super) fn dotted(oid: &[u8]) -> String {
    let Some((first, rest)) = oid.split_first() else {
        return String::new();
    };
    let top = (*first / 40).min(2);
    let mut text = format!("{top}.{}", first - top * 40);
    let mut number = 0u64;
    for byte in rest.iter().take(OID_BYTES_MAX) {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            text.push_str(&format!(".{number}"));
            number = 0;
        }
    }
    text
}

/// Java uses 10,000 and OpenSSL 2,048; more than this takes seconds.
const ITERATIONS_MAX: u32 = if cfg!(fuzzing) { 100 } else { 5_000_000 };
const OID_BYTES_MAX: usize = 32;

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
const PBE_3DES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x03];
const PBE_RC2_128: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x05];
const PBE_RC2_40: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x06];
const AES_128_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x02];
const AES_192_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x16];
const AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a];
const DES_EDE3_CBC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07];
const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x07];
const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x09];
const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0a];
const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0b];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers_are_printed() {
        assert_eq!(dotted(PBES2), "1.2.840.113549.1.5.13");
        assert_eq!(dotted(AES_256_CBC), "2.16.840.1.101.3.4.1.42");
        assert_eq!(dotted(&[]), "");
    }

    #[test]
    fn iteration_counts_are_bounded() {
        assert!(iterations(0).is_err());
        assert!(iterations(u32::MAX).is_err());
        assert!(iterations(10_000).is_ok());
    }
}
