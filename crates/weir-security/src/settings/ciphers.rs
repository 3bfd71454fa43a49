//! Names of cipher suites: IANA's, which Java uses, and OpenSSL's.

use super::security::TlsVersion;

/// Cipher suite of one of the TLS libraries that Weir uses, rustls and OpenSSL.
#[derive(Debug, PartialEq, Eq)]
pub struct CipherSuite {
    /// IANA name.
    pub name: &'static str,
    /// OpenSSL name.
    pub openssl: &'static str,
    /// Protocol version of the suite.
    pub version: TlsVersion,
    /// `true` if rustls supports the suite; OpenSSL supports all.
    pub in_rustls: bool,
}

/// Returns the suite with this IANA or OpenSSL name.
pub fn find(name: &str) -> Option<&'static CipherSuite> {
    let same = |suite: &&CipherSuite| suite.name == name || suite.openssl == name;
    SUITES.iter().find(same)
}

/// Returns the IANA names of all suites, for error messages.
pub(super) fn names() -> String {
    let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
    names.join(", ")
}

/// Number of suites of TLS 1.3 in the table; OpenSSL enables exactly these.
pub(super) const TLS13_COUNT: usize = 3;

const fn v1_3(name: &'static str) -> CipherSuite {
    CipherSuite {
        name,
        openssl: name,
        version: TlsVersion::V1_3,
        in_rustls: true,
    }
}

const fn v1_2(name: &'static str, openssl: &'static str, in_rustls: bool) -> CipherSuite {
    CipherSuite {
        name,
        openssl,
        version: TlsVersion::V1_2,
        in_rustls,
    }
}

#[rustfmt::skip] // one suite per line
const SUITES: &[CipherSuite] = &[
    v1_3("TLS_AES_256_GCM_SHA384"),
    v1_3("TLS_AES_128_GCM_SHA256"),
    v1_3("TLS_CHACHA20_POLY1305_SHA256"),
    v1_2("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", true),
    v1_2("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", true),
    v1_2("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", true),
    v1_2("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", true),
    v1_2("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", true),
    v1_2("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", true),
    v1_2("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384", false),
    v1_2("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256", false),
    v1_2("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305", false),
    v1_2("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384", false),
    v1_2("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384", false),
    v1_2("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256", false),
    v1_2("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256", false),
    v1_2("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256", false),
    v1_2("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256", false),
    v1_2("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA", false),
    v1_2("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA", false),
    v1_2("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA", false),
    v1_2("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA", false),
    v1_2("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384", false),
    v1_2("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256", false),
    v1_2("TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256", false),
    v1_2("TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256", false),
    v1_2("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA", false),
    v1_2("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_found_by_both_names() {
        let java = find("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384");
        assert_eq!(java, find("ECDHE-RSA-AES256-GCM-SHA384"));
        assert!(java.is_some_and(|suite| suite.in_rustls));
        assert_eq!(find("TLS_RSA_WITH_RC4_128_MD5"), None);
        let v1_3 = SUITES.iter().filter(|it| it.version == TlsVersion::V1_3);
        assert_eq!(v1_3.count(), TLS13_COUNT);
    }

    #[test]
    fn rustls_flags_match_rustls() {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        for suite in SUITES {
            let name = match suite.version {
                TlsVersion::V1_2 => suite.name.to_owned(),
                TlsVersion::V1_3 => suite.name.replacen("TLS_", "TLS13_", 1),
            };
            let found = provider.cipher_suites.iter();
            let has = found.clone().any(|it| format!("{:?}", it.suite()) == name);
            assert_eq!(has, suite.in_rustls, "{name}");
        }
    }
}
