//! Signature algorithms of tokens.

use std::fmt;

/// Signature algorithm (RFC 7518, RFC 8037). There is no `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are those of the header parameter `alg`
pub enum Algorithm {
    Hs256,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

/// Keys that an algorithm works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFamily {
    /// A secret shared with the issuer.
    Secret,
    /// RSA.
    Rsa,
    /// Elliptic curve P-256.
    P256,
    /// Elliptic curve P-384.
    P384,
    /// Edwards curve 25519.
    Ed25519,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 10] = [
        Self::Hs256,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// Returns the value of `alg`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Returns the algorithm of this name. The case matters, as RFC 7515 requires.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns the keys that this algorithm works with.
    pub fn family(self) -> KeyFamily {
        match self {
            Self::Hs256 => KeyFamily::Secret,
            Self::Rs256 | Self::Rs384 | Self::Rs512 => KeyFamily::Rsa,
            Self::Ps256 | Self::Ps384 | Self::Ps512 => KeyFamily::Rsa,
            Self::Es256 => KeyFamily::P256,
            Self::Es384 => KeyFamily::P384,
            Self::EdDsa => KeyFamily::Ed25519,
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlgorithmSet(u16);

impl AlgorithmSet {
    /// Returns `true` if the algorithm is in the set.
    pub fn contains(self, algorithm: Algorithm) -> bool {
        self.0 & algorithm.bit() != 0
    }

    /// Returns the algorithms of the set that work with keys of `family`.
    pub fn of_family(self, family: KeyFamily) -> impl Iterator<Item = Algorithm> {
        self.iter().filter(move |one| one.family() == family)
    }

    /// Returns the algorithms of the set.
    pub fn iter(self) -> impl Iterator<Item = Algorithm> {
        Algorithm::ALL
            .into_iter()
            .filter(move |one| self.contains(*one))
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Algorithm> for AlgorithmSet {
    fn from_iter<I: IntoIterator<Item = Algorithm>>(algorithms: I) -> Self {
        Self(algorithms.into_iter().fold(0, |bits, one| bits | one.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
            assert_eq!(Algorithm::from_name(&algorithm.name().to_lowercase()), None);
        }
        for name in ["none", "None", "nOnE", "", "HS384", "ES512", "RS256 "] {
            assert_eq!(Algorithm::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn set_has_its_members() {
        let set: AlgorithmSet = [Algorithm::Es256, Algorithm::Ps384].into_iter().collect();
        let members: Vec<_> = set.iter().collect();
        assert_eq!(members, [Algorithm::Ps384, Algorithm::Es256]);
        assert_eq!(set.of_family(KeyFamily::Rsa).count(), 1);
        assert!(AlgorithmSet::default().is_empty());
    }
}
