//! Types of parameter values, independent of the parameters.

use weir_formats::white_space::{is_blank, trim};

/// Maximum number of threads of one connection; the connector uses operating system threads.
const THREADS_MAX: i64 = 256;

/// Type of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// Text that is not blank.
    Text,
    /// Exactly `true` or `false`.
    Boolean,
    /// One of these words, case-sensitive.
    Choice(&'static [&'static str]),
    /// A whole number in this range.
    Number(i64, i64),
    /// -1 or 1 to 256; the connector has no upper bound.
    Threads,
    /// One character that is not blank.
    Char,
    /// `host:port`, comma-separated.
    HostList,
    /// Texts that are not blank, comma-separated.
    TextList,
    /// Some of these words, comma-separated.
    ChoiceList(&'static [&'static str]),
    /// `scheme://host`, with or without port and path.
    Url,
    /// A path of a file, which is not opened.
    File,
}

/// A Java int.
pub(super) const INT: ValueType = ValueType::Number(i32::MIN as i64, i32::MAX as i64);
pub(super) const POSITIVE_INT: ValueType = ValueType::Number(1, i32::MAX as i64);
pub(super) const NON_NEGATIVE_INT: ValueType = ValueType::Number(0, i32::MAX as i64);
/// A Java long of at least 0.
pub(super) const NON_NEGATIVE_LONG: ValueType = ValueType::Number(0, i64::MAX);

impl ValueType {
    /// Returns `true` if `value` is of this type.
    pub(crate) fn accepts(self, value: &str) -> bool {
        if is_blank(value) {
            return false;
        }
        let is_in = |min, max| value.parse().is_ok_and(|i: i64| (min..=max).contains(&i));
        let all = |is_one: &dyn Fn(&str) -> bool| {
            text_list(value).is_some_and(|list| list.into_iter().all(is_one))
        };
        match self {
            Self::Text | Self::File => true,
            Self::Boolean => value.parse::<bool>().is_ok(),
            Self::Choice(words) => words.contains(&value),
            Self::Number(min, max) => is_in(min, max),
            Self::Threads => is_in(-1, -1) || is_in(1, THREADS_MAX),
            // One UTF-16 code unit, as in Java.
            Self::Char => value.encode_utf16().count() == 1,
            Self::HostList => all(&is_host),
            Self::TextList => all(&|_| true),
            Self::ChoiceList(words) => all(&|word| words.contains(&word)),
            Self::Url => is_url(value),
        }
    }

    /// Returns the expected form, to complete "is not ...".
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Text => "a text that is not blank".into(),
            Self::Boolean => "true or false".into(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Number(min, max) => format!("a whole number from {min} to {max}"),
            Self::Threads => format!("-1 or a whole number from 1 to {THREADS_MAX}"),
            Self::Char => "exactly one character".into(),
            Self::HostList => "a list of host:port, separated by commas".into(),
            Self::TextList => "a list of texts, separated by commas".into(),
            Self::ChoiceList(words) => {
                format!("a list of {}, separated by commas", words.join(", "))
            }
            Self::Url => "a URL with a host, such as http://localhost:8081".into(),
            Self::File => "the path of a file".into(),
        }
    }
}

/// Splits at commas and trims the elements. Returns `None` if an element is blank.
pub(crate) fn text_list(value: &str) -> Option<Vec<&str>> {
    let elements: Vec<&str> = value.split(',').map(trim).collect();
    elements
        .iter()
        .all(|element| !element.is_empty())
        .then_some(elements)
}

fn is_host(element: &str) -> bool {
    let Some((host, port)) = element.rsplit_once(':') else {
        return false;
    };
    let host_char = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'%' | b'_');
    let digits = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
    !host.is_empty() && host.bytes().all(host_char) && digits && port.parse::<u16>().is_ok()
}

fn is_url(value: &str) -> bool {
    let Some((scheme, rest)) = value.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let scheme_char = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(scheme_char)
        && !host.is_empty()
        && !host.starts_with(':')
        && !value.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value_type: ValueType, valid: &[&str], invalid: &[&str]) {
        for value in valid {
            assert!(value_type.accepts(value), "{value_type:?} {value:?}");
        }
        for value in invalid {
            assert!(!value_type.accepts(value), "{value_type:?} {value:?}");
        }
    }

    #[test]
    fn words_and_characters_are_checked() {
        check(ValueType::Text, &["a", " a "], &["", "  ", "\t"]);
        check(ValueType::File, &["log4j.properties"], &["", " "]);
        check(
            ValueType::Boolean,
            &["true", "false"],
            &["TRUE", "yes", "", "1", " true"],
        );
        check(
            ValueType::Choice(&["JSON", "STRING"]),
            &["JSON"],
            &["json", "", "XML"],
        );
        check(ValueType::Char, &["=", "é"], &["", " ", "ab", "😀"]);
    }

    #[test]
    fn numbers_are_checked() {
        check(
            INT,
            &["0", "-5", "2147483647"],
            &["", "1.0", "2147483648", "x", " 1"],
        );
        check(POSITIVE_INT, &["1", "500"], &["0", "-1"]);
        check(NON_NEGATIVE_INT, &["0", "5"], &["-1", "2147483648"]);
        check(
            NON_NEGATIVE_LONG,
            &["0", "9223372036854775807"],
            &["-1", "9223372036854775808", "1s"],
        );
        check(
            ValueType::Threads,
            &["-1", "1", "256"],
            &["0", "-2", "257", "many"],
        );
    }

    #[test]
    fn lists_and_urls_are_checked() {
        check(ValueType::TextList, &["a", "a , b"], &["", "a,", ",a"]);
        check(
            ValueType::ChoiceList(&["TLSv1.2", "TLSv1.3"]),
            &["TLSv1.3", "TLSv1.2, TLSv1.3"],
            &["", "SSLv3", "TLSv1.2,SSLv3", "TLSv1.2,"],
        );
        check(
            ValueType::Url,
            &[
                "http://localhost:8081",
                "https://u:p@h/x?y",
                "http://[::1]:8081",
            ],
            &[
                "",
                "localhost:8081",
                "http://",
                "http:///x",
                "http://:80",
                "h ttp://a",
                "http://a b",
            ],
        );
    }

    #[test]
    fn host_lists_are_checked() {
        check(
            ValueType::HostList,
            &["localhost:9092", "a:1 , b-1.c_d%e:65535", "10.0.0.1:9092"],
            &[
                "",
                "localhost",
                "localhost:",
                ":9092",
                "a:09",
                "a:0",
                "a:1,",
                "a:1,,b:2",
                "a b:1",
                "a:65536",
                "http://a:1",
                "a:+1",
                "[::1]:9092",
            ],
        );
    }

    #[test]
    fn blanks_around_commas_are_trimmed() {
        assert_eq!(text_list(" a , b,c "), Some(vec!["a", "b", "c"]));
        assert_eq!(text_list("a,"), None);
        assert_eq!(text_list(""), None);
    }
}
