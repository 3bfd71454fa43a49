//! Types of parameter values: what a text must look like. Nothing here names a parameter.

use crate::text::{is_blank, trim};

/// The type of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not blank.
    Text,
    /// Exactly `true` or `false`.
    Boolean,
    /// One of these, letter by letter.
    Choice(&'static [&'static str]),
    /// A Java int.
    Int,
    /// A Java int from 1.
    PositiveInt,
    /// -1 or from 1.
    Threads,
    /// One character that is not blank.
    Char,
    /// `host:port`, comma separated.
    HostList,
    /// A path; whether the file exists is for the caller to see.
    File,
}

impl Kind {
    /// True if `value` is of this type.
    pub(crate) fn accepts(self, value: &str) -> bool {
        if is_blank(value) {
            return false;
        }
        match self {
            Self::Text | Self::File => true,
            Self::Boolean => boolean(value).is_some(),
            Self::Choice(members) => members.contains(&value),
            Self::Int => int(value).is_some(),
            Self::PositiveInt => int(value).is_some_and(|i| i >= 1),
            Self::Threads => int(value).is_some_and(|i| i == -1 || i >= 1),
            // One UTF-16 unit, as Java counts.
            Self::Char => value.encode_utf16().count() == 1,
            Self::HostList => {
                text_list(value).is_some_and(|hosts| hosts.iter().all(|h| is_host(h)))
            }
        }
    }

    /// What a value must be, to complete "is not ...".
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Text => "a text that is not blank".into(),
            Self::Boolean => "true or false".into(),
            Self::Choice(members) => format!("one of {}", members.join(", ")),
            Self::Int => "a whole number of 32 bits".into(),
            Self::PositiveInt => "a whole number from 1 to 2147483647".into(),
            Self::Threads => "-1 or a whole number from 1 to 2147483647".into(),
            Self::Char => "exactly one character".into(),
            Self::HostList => "a list of host:port, separated by commas".into(),
            Self::File => "the path of a file".into(),
        }
    }
}

/// Reads exactly `true` or `false`.
pub(crate) fn boolean(value: &str) -> Option<bool> {
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Reads a decimal Java int.
pub(crate) fn int(value: &str) -> Option<i32> {
    value.parse().ok()
}

/// Cuts a comma list and drops the blanks around commas; `None` if an element is blank.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, good: &[&str], bad: &[&str]) {
        for value in good {
            assert!(kind.accepts(value), "{kind:?} {value:?}");
        }
        for value in bad {
            assert!(!kind.accepts(value), "{kind:?} {value:?}");
        }
    }

    #[test]
    fn words() {
        check(Kind::Text, &["a", " a "], &["", "  ", "\t"]);
        check(Kind::File, &["log4j.properties"], &["", " "]);
        check(
            Kind::Boolean,
            &["true", "false"],
            &["TRUE", "yes", "", "1", " true"],
        );
        check(
            Kind::Choice(&["JSON", "STRING"]),
            &["JSON"],
            &["json", "", "XML"],
        );
        check(Kind::Char, &["=", "é"], &["", " ", "ab", "😀"]);
    }

    #[test]
    fn numbers() {
        check(
            Kind::Int,
            &["0", "-5", "2147483647"],
            &["", "1.0", "2147483648", "x", " 1"],
        );
        check(Kind::PositiveInt, &["1", "500"], &["0", "-1"]);
        check(Kind::Threads, &["-1", "1", "4"], &["0", "-2", "many"]);
    }

    #[test]
    fn hosts() {
        check(
            Kind::HostList,
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
    fn lists_drop_blanks_around_commas() {
        assert_eq!(text_list(" a , b,c "), Some(vec!["a", "b", "c"]));
        assert_eq!(text_list("a,"), None);
        assert_eq!(text_list(""), None);
    }
}
