//! AWS Signature Version 4.

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;

use super::super::encode::percent;
use super::keys::AwsCredentials;

/// Credential scope: time, region and service that a signature is valid for.
pub(super) struct Scope<'a> {
    pub(super) time: Timestamp,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

impl Scope<'_> {
    /// Returns the time as `20150830T123600Z`.
    pub(super) fn date_time(&self) -> String {
        self.time.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    fn date(&self) -> String {
        self.time.strftime("%Y%m%d").to_string()
    }

    fn credential_scope(&self) -> String {
        let (date, region, service) = (self.date(), self.region, self.service);
        format!("{date}/{region}/{service}/aws4_request")
    }
}

/// Request parts that are signed.
pub(super) struct SignedRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// Names and values, not percent-encoded.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Lower-case names with values, sorted by name.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) payload_hash: &'a str,
}

impl SignedRequest<'_> {
    pub(super) fn signed_headers(&self) -> String {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| *name).collect();
        names.join(";")
    }

    fn canonical_request(&self) -> String {
        let pairs = self.query.iter();
        let mut query: Vec<_> = pairs
            .map(|(name, value)| (percent(name), percent(value)))
            .collect();
        query.sort();
        let query: Vec<_> = query
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let headers = self.headers.iter();
        let headers: String = headers
            .map(|(name, value)| format!("{name}:{value}\n"))
            .collect();
        format!(
            "{}\n{}\n{}\n{headers}\n{}\n{}",
            self.method,
            self.path,
            query.join("&"),
            self.signed_headers(),
            self.payload_hash
        )
    }

    /// Returns the signature in hexadecimal digits.
    pub(super) fn sign(&self, credentials: &AwsCredentials, scope: &Scope<'_>) -> String {
        let (date_time, credential_scope) = (scope.date_time(), scope.credential_scope());
        let hash = sha256_hex(self.canonical_request().as_bytes());
        let string_to_sign = format!("{ALGORITHM}\n{date_time}\n{credential_scope}\n{hash}");
        hex(mac(&signing_key(credentials, scope), &string_to_sign).as_ref())
    }

    /// Returns the header `authorization`.
    pub(super) fn authorization(&self, credentials: &AwsCredentials, scope: &Scope<'_>) -> String {
        format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={}, Signature={}",
            credentials.key_id,
            scope.credential_scope(),
            self.signed_headers(),
            self.sign(credentials, scope)
        )
    }
}

/// Returns the query of a signed GET request without body: `action`, then the parameters of the
/// signature.
pub(super) fn signed_query(
    credentials: &AwsCredentials,
    scope: &Scope<'_>,
    host: &str,
    action: (&'static str, String),
    expires_seconds: u64,
) -> Vec<(&'static str, String)> {
    let mut query = vec![
        action,
        ("X-Amz-Algorithm", ALGORITHM.to_owned()),
        (
            "X-Amz-Credential",
            format!("{}/{}", credentials.key_id, scope.credential_scope()),
        ),
        ("X-Amz-Date", scope.date_time()),
        ("X-Amz-Expires", expires_seconds.to_string()),
    ];
    if let Some(token) = &credentials.session_token {
        query.push(("X-Amz-Security-Token", token.reveal().to_owned()));
    }
    query.push(("X-Amz-SignedHeaders", "host".to_owned()));
    let pairs: Vec<_> = query
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let request = SignedRequest {
        method: "GET",
        path: "/",
        query: &pairs,
        headers: &[("host", host)],
        payload_hash: &sha256_hex(b""),
    };
    let signature = request.sign(credentials, scope);
    query.push(("X-Amz-Signature", signature));
    query
}

fn signing_key(credentials: &AwsCredentials, scope: &Scope<'_>) -> hmac::Key {
    let secret = format!("AWS4{}", credentials.secret_key.reveal());
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    for part in [&scope.date(), scope.region, scope.service, "aws4_request"] {
        key = hmac::Key::new(hmac::HMAC_SHA256, mac(&key, part).as_ref());
    }
    key
}

fn mac(key: &hmac::Key, text: &str) -> hmac::Tag {
    hmac::sign(key, text.as_bytes())
}

/// Returns the SHA-256 hash in hexadecimal digits.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Test vectors that Amazon has published.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn credentials(key_id: &str, secret: &str) -> AwsCredentials {
        AwsCredentials {
            key_id: key_id.to_owned(),
            secret_key: Secret::new(secret),
            session_token: None,
            expires: None,
        }
    }

    fn suite() -> (AwsCredentials, Scope<'static>) {
        let scope = Scope {
            time: "2015-08-30T12:36:00Z".parse().expect("a time"),
            region: "us-east-1",
            service: "service",
        };
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        (credentials("AKIDEXAMPLE", secret), scope)
    }

    const HEADERS: [(&str, &str); 2] = [
        ("host", "example.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
    ];

    #[test]
    fn signatures_match_the_test_suite() {
        let (credentials, scope) = suite();
        let sign = |method, query: &[(&str, &str)]| {
            let request = SignedRequest {
                method,
                path: "/",
                query,
                headers: &HEADERS,
                payload_hash: EMPTY_SHA256,
            };
            request.sign(&credentials, &scope)
        };
        // get-vanilla
        assert_eq!(
            sign("GET", &[]),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
        // get-vanilla-query-order-key-case
        assert_eq!(
            sign("GET", &[("Param2", "value2"), ("Param1", "value1")]),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
        );
        // post-vanilla
        assert_eq!(
            sign("POST", &[]),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
    }

    #[test]
    fn forms_and_headers_match_the_test_suite() {
        let (credentials, scope) = suite();
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(HEADERS);
        let request = SignedRequest {
            method: "POST",
            path: "/",
            query: &[],
            headers: &headers,
            payload_hash: &sha256_hex(b"Param1=value1"),
        };
        // post-x-www-form-urlencoded
        assert_eq!(
            request.authorization(&credentials, &scope),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
        );
    }

    #[test]
    fn signing_key_matches_the_published_example() {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let scope = Scope {
            time: "2015-08-30T00:00:00Z".parse().expect("a time"),
            region: "us-east-1",
            service: "iam",
        };
        // The published key itself cannot be read back, but it signs this published text.
        let key = signing_key(&credentials("AKIDEXAMPLE", secret), &scope);
        let text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n\
                    f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59";
        assert_eq!(
            hex(mac(&key, text).as_ref()),
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }

    #[test]
    fn signed_urls_match_the_published_example() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let scope = Scope {
            time: "2013-05-24T00:00:00Z".parse().expect("a time"),
            region: "us-east-1",
            service: "s3",
        };
        let credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        let request = SignedRequest {
            method: "GET",
            path: "/test.txt",
            query: &[
                ("X-Amz-Algorithm", ALGORITHM),
                ("X-Amz-Credential", credential),
                ("X-Amz-Date", "20130524T000000Z"),
                ("X-Amz-Expires", "86400"),
                ("X-Amz-SignedHeaders", "host"),
            ],
            headers: &[("host", "examplebucket.s3.amazonaws.com")],
            payload_hash: "UNSIGNED-PAYLOAD",
        };
        assert_eq!(
            request.sign(&credentials("AKIAIOSFODNN7EXAMPLE", secret), &scope),
            "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }
}
