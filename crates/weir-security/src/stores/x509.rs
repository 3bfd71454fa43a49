//! The fields of certificates and keys that are checked at start.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::der::{
    BIT_STRING, Der, DerError, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, SET,
    UTC_TIME, context,
};
use super::encryption::dotted;
use super::error::StoreError;

/// Fields of a certificate, borrowed.
pub(super) struct Certificate<'a> {
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    not_before: Instant,
    not_after: Instant,
    key_algorithm: &'a [u8],
}

/// A time of a certificate, as a date and as seconds since the Unix epoch.
struct Instant {
    date: String,
    seconds: i64,
}

impl<'a> Certificate<'a> {
    pub(super) fn parse(der: &'a [u8]) -> Result<Self, StoreError> {
        Self::read(der).map_err(|_| StoreError::Damaged("a certificate is invalid"))
    }

    fn read(der: &'a [u8]) -> Result<Self, DerError> {
        let mut body = Der(der).expect(SEQUENCE)?.expect(SEQUENCE)?;
        body.optional(context(0))?; // version
        body.expect(INTEGER)?; // serial number
        body.expect(SEQUENCE)?; // signature algorithm
        let (_, _, issuer) = body.any()?;
        let mut validity = body.expect(SEQUENCE)?;
        let not_before = time(&mut validity)?;
        let not_after = time(&mut validity)?;
        let (_, _, subject) = body.any()?;
        let mut key = body.expect(SEQUENCE)?;
        let (key_algorithm, _) = key.algorithm()?;
        key.expect(BIT_STRING)?;
        Ok(Self {
            issuer,
            subject,
            not_before,
            not_after,
            key_algorithm,
        })
    }

    /// Checks the certificate's period of validity.
    pub(super) fn check_validity(&self, now: SystemTime) -> Result<(), StoreError> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let subject = || common_name(self.subject);
        if now > self.not_after.seconds {
            let (subject, date) = (subject(), self.not_after.date.clone());
            return Err(StoreError::Expired { subject, date });
        }
        if now < self.not_before.seconds {
            let (subject, date) = (subject(), self.not_before.date.clone());
            return Err(StoreError::NotYetValid { subject, date });
        }
        Ok(())
    }

    /// Returns the type of the certificate's key.
    pub(super) fn key_type(&self) -> Result<&'static str, StoreError> {
        key_type(self.key_algorithm)
    }
}

/// Returns the type of a PKCS#8 key.
pub(super) fn pkcs8_key_type(key: &[u8]) -> Result<&'static str, StoreError> {
    let read = || {
        let mut info = Der(key).expect(SEQUENCE)?;
        info.expect(INTEGER)?;
        let (oid, _) = info.algorithm()?;
        info.expect(OCTET_STRING)?;
        Ok::<_, DerError>(oid)
    };
    key_type(read().map_err(|_| StoreError::Damaged("the private key is invalid"))?)
}

fn key_type(oid: &[u8]) -> Result<&'static str, StoreError> {
    Ok(match oid {
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01] => "RSA",
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01] => "EC",
        [0x2b, 0x65, 0x70] => "Ed25519",
        [0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01] => {
            let found = "DSA".to_owned();
            return Err(StoreError::KeyType { found });
        }
        other => {
            let found = dotted(other);
            return Err(StoreError::KeyType { found });
        }
    })
}

/// Returns the common name of a distinguished name, or its last part.
fn common_name(name: &[u8]) -> String {
    let mut found = String::new();
    let mut parts = Der(name).expect(SEQUENCE).unwrap_or(Der(&[]));
    while let Ok(mut part) = parts.expect(SET) {
        let Ok(mut attribute) = part.expect(SEQUENCE) else {
            break;
        };
        let Ok(kind) = attribute.expect(OID) else {
            break;
        };
        if let Ok((_, text, _)) = attribute.any() {
            found = String::from_utf8_lossy(text.0).into_owned();
        }
        if kind.0 == COMMON_NAME {
            break;
        }
    }
    found.retain(|it| !it.is_control());
    found
}

fn time(validity: &mut Der<'_>) -> Result<Instant, DerError> {
    let (tag, text, _) = validity.any()?;
    let text = std::str::from_utf8(text.0).map_err(|_| DerError)?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2).ok_or(DerError)?;
            let year = digits(year)?;
            (year + if year < 50 { 2000 } else { 1900 }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4).ok_or(DerError)?;
            (digits(year)?, rest)
        }
        _ => return Err(DerError),
    };
    if rest.len() != 11 || !rest.ends_with('Z') || !rest.is_ascii() {
        return Err(DerError);
    }
    let field = |index: usize| digits(&rest[index * 2..index * 2 + 2]);
    let (month, day) = (field(0)?, field(1)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(DerError);
    }
    let seconds = field(2)? * 3600 + field(3)? * 60 + field(4)?;
    Ok(Instant {
        date: format!("{year:04}-{month:02}-{day:02}"),
        seconds: days(year, month, day) * 86_400 + seconds,
    })
}

fn digits(text: &str) -> Result<i64, DerError> {
    let valid = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| valid).ok_or(DerError)
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last day.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Object identifier 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_days_since_the_epoch() {
        for (date, expected) in [
            ((1970, 1, 1), 0),
            ((1972, 3, 1), 790),
            ((2000, 2, 29), 11_016),
            ((2026, 11, 23), 20_780),
        ] {
            assert_eq!(days(date.0, date.1, date.2), expected, "{date:?}");
        }
    }

    #[test]
    fn times_have_two_forms() {
        let read = |tag: u8, text: &str| {
            let mut der = vec![tag, u8::try_from(text.len()).expect("short")];
            der.extend_from_slice(text.as_bytes());
            time(&mut Der(&der)).map(|it| (it.date, it.seconds))
        };
        let expected = ("2030-01-02".to_owned(), 1_893_553_445);
        assert_eq!(read(UTC_TIME, "300102030405Z"), Ok(expected.clone()));
        assert_eq!(read(GENERALIZED_TIME, "20300102030405Z"), Ok(expected));
        for bad in [
            "300102030405",
            "3001020304Z",
            "30+102030405Z",
            "",
            "ääääää1Z",
        ] {
            assert_eq!(read(UTC_TIME, bad), Err(DerError), "{bad}");
        }
    }
}
