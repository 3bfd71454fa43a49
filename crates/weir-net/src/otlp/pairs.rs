//! Lists `key=value,key=value` of environment variables, as OpenTelemetry defines them: values are
//! percent-encoded.

/// Parses a list. Returns `None` if an element has no key or no `=`, or is not valid UTF-8.
pub(super) fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let elements = text.split(',').map(str::trim).filter(|one| !one.is_empty());
    let pair = |element: &str| {
        let (key, value) = element.split_once('=')?;
        let (key, value) = (decode(key.trim())?, decode(value.trim())?);
        (!key.is_empty()).then_some((key, value))
    };
    elements.map(pair).collect()
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = (byte == b'%').then(|| after.get(..2)).flatten();
        let decoded = digits.and_then(|two| {
            let two = std::str::from_utf8(two).ok()?;
            u8::from_str_radix(two, 16).ok()
        });
        bytes.push(decoded.unwrap_or(byte));
        rest = match decoded {
            Some(_) => &after[2..],
            None => after,
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Some(list.iter().map(owned).collect())
    }

    #[test]
    fn lists_are_percent_decoded() {
        let text = "authorization=Bearer%20a=b, x-tenant=%C3%A4 ,,n=50%";
        let want = pairs(&[
            ("authorization", "Bearer a=b"),
            ("x-tenant", "ä"),
            ("n", "50%"),
        ]);
        assert_eq!(parse(text), want);
        assert_eq!(parse(""), pairs(&[]));
        assert_eq!(parse("a=1,b"), None);
        assert_eq!(parse("=1"), None);
        assert_eq!(parse("a=%FF"), None);
    }
}
