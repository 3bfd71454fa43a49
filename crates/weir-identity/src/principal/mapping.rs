//! Rules that map the subject of a certificate to the name of a principal, in the format of Kafka's
//! `ssl.principal.mapping.rules`.

use regex::{Captures, Regex, RegexBuilder};
use thiserror::Error;

/// Maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Maximum number of rules.
const RULES_MAX: usize = 100;

/// Rules in their order; the first one that matches the whole subject decides.
#[derive(Debug, Clone)]
pub struct SubjectMapping {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
enum Rule {
    /// `DEFAULT`: the subject itself.
    Subject,
    Replace {
        pattern: Regex,
        parts: Vec<ReplacementPart>,
        case: LetterCase,
    },
}

/// Part of a replacement: text, or the number of a group of the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReplacementPart {
    Text(String),
    Group(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LetterCase {
    Unchanged,
    Lower,
    Upper,
}

/// Error in a list of rules.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum MappingError {
    #[error("no rule: write DEFAULT, or remove the key")]
    Empty,
    #[error("more than {RULES_MAX} rules")]
    Count,
    #[error("\"{0}\": write DEFAULT or RULE:PATTERN/REPLACEMENT/, with L or U at the end")]
    Syntax(String),
    #[error("\"{rule}\": {reason}")]
    Pattern { rule: String, reason: String },
    #[error("\"{rule}\": the pattern has no group {group}")]
    Group { rule: String, group: usize },
}

impl Default for SubjectMapping {
    fn default() -> Self {
        Self {
            rules: vec![Rule::Subject],
        }
    }
}

impl SubjectMapping {
    /// Parses rules, each `DEFAULT` or `RULE:PATTERN/REPLACEMENT/` with `L` or `U` at the end for
    /// lower or upper case. A slash in a pattern is written as `\/`.
    pub fn parse(rules: &[impl AsRef<str>]) -> Result<Self, MappingError> {
        match rules.len() {
            0 => return Err(MappingError::Empty),
            1..=RULES_MAX => {}
            _ => return Err(MappingError::Count),
        }
        let rules = rules.iter().map(|rule| Rule::parse(rule.as_ref().trim()));
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the name for a subject, or `None` if no rule matches.
    pub fn name(&self, subject: &str) -> Option<String> {
        self.rules.iter().find_map(|rule| rule.apply(subject))
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self, MappingError> {
        if text == "DEFAULT" {
            return Ok(Self::Subject);
        }
        let syntax = || MappingError::Syntax(text.to_owned());
        let body = text.strip_prefix("RULE:").ok_or_else(syntax)?;
        let (pattern, rest) = split_at_slash(body).ok_or_else(syntax)?;
        let (replacement, case) = split_at_slash(rest).ok_or_else(syntax)?;
        let case = match case {
            "" => LetterCase::Unchanged,
            "L" => LetterCase::Lower,
            "U" => LetterCase::Upper,
            _ => return Err(syntax()),
        };
        // Kafka requires a match of the whole subject.
        let whole = format!("^(?:{})$", pattern.replace("\\/", "/"));
        let built = RegexBuilder::new(&whole)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        let pattern = built.map_err(|error| MappingError::Pattern {
            rule: text.to_owned(),
            reason: error.to_string(),
        })?;
        let parts = parts(&replacement.replace("\\/", "/"));
        let groups = parts.iter().filter_map(|part| match part {
            ReplacementPart::Group(group) => Some(*group),
            ReplacementPart::Text(_) => None,
        });
        if let Some(group) = groups
            .max()
            .filter(|group| *group >= pattern.captures_len())
        {
            let rule = text.to_owned();
            return Err(MappingError::Group { rule, group });
        }
        Ok(Self::Replace {
            pattern,
            parts,
            case,
        })
    }

    fn apply(&self, subject: &str) -> Option<String> {
        match self {
            Self::Subject => Some(subject.to_owned()),
            Self::Replace {
                pattern,
                parts,
                case,
            } => {
                let name = expand(parts, &pattern.captures(subject)?);
                Some(match case {
                    LetterCase::Unchanged => name,
                    LetterCase::Lower => name.to_lowercase(),
                    LetterCase::Upper => name.to_uppercase(),
                })
            }
        }
    }
}

/// Splits at the first slash that no backslash precedes.
fn split_at_slash(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\\' => is_escaped = !is_escaped,
            b'/' if !is_escaped => return Some((&text[..at], &text[at + 1..])),
            _ => is_escaped = false,
        }
    }
    None
}

/// Splits a replacement at its groups `$0` to `$9`.
fn parts(replacement: &str) -> Vec<ReplacementPart> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut chars = replacement.chars().peekable();
    while let Some(c) = chars.next() {
        let group = match c {
            '$' => chars.peek().and_then(|next| next.to_digit(10)),
            _ => None,
        };
        match group {
            Some(group) => {
                chars.next();
                if !text.is_empty() {
                    parts.push(ReplacementPart::Text(std::mem::take(&mut text)));
                }
                parts.push(ReplacementPart::Group(group as usize));
            }
            None => text.push(c),
        }
    }
    if !text.is_empty() {
        parts.push(ReplacementPart::Text(text));
    }
    parts
}

fn expand(parts: &[ReplacementPart], captures: &Captures<'_>) -> String {
    let mut name = String::new();
    for part in parts {
        match part {
            ReplacementPart::Text(text) => name.push_str(text),
            ReplacementPart::Group(group) => {
                name.push_str(captures.get(*group).map_or("", |it| it.as_str()))
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUBJECT: &str = "CN=Anna,OU=Trade/EU,O=ACME,C=DE";

    fn name(rules: &[&str]) -> Option<String> {
        SubjectMapping::parse(rules).unwrap().name(SUBJECT)
    }

    /// The examples of Kafka's documentation, and its order of rules.
    #[test]
    fn first_matching_rule_decides() {
        let common = "RULE:^CN=(.*?),.*$/$1/";
        assert_eq!(name(&[common]).as_deref(), Some("Anna"));
        assert_eq!(name(&["RULE:^CN=(.*?),.*$/$1/L"]).as_deref(), Some("anna"));
        assert_eq!(name(&["RULE:^CN=(.*?),.*$/$1/U"]).as_deref(), Some("ANNA"));
        let two = "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/";
        assert_eq!(name(&[two]).as_deref(), Some("Anna@Trade/EU"));
        assert_eq!(name(&["DEFAULT"]).as_deref(), Some(SUBJECT));
        assert_eq!(name(&["RULE:^X=.*$/x/", common]).as_deref(), Some("Anna"));
        assert_eq!(name(&["RULE:^X=.*$/x/"]), None);
        assert_eq!(
            name(&["RULE:CN=Anna/x/"]),
            None,
            "the whole subject must match"
        );
        let slash = "RULE:^CN=(.*?),OU=Trade\\/EU,.*$/$1\\/$$/";
        assert_eq!(name(&[slash]).as_deref(), Some("Anna/$$"));
        assert_eq!(
            SubjectMapping::default().name("CN=x").as_deref(),
            Some("CN=x")
        );
    }

    #[test]
    fn invalid_rules_are_rejected() {
        let error = |rule: &str| SubjectMapping::parse(&[rule]).unwrap_err();
        for rule in ["", "default", "RULE:x", "RULE:x/y", "RULE:x/y/X"] {
            assert!(matches!(error(rule), MappingError::Syntax(_)), "{rule}");
        }
        assert!(matches!(error("RULE:(/x/"), MappingError::Pattern { .. }));
        assert!(matches!(
            error("RULE:a{999999}/x/"),
            MappingError::Pattern { .. }
        ));
        assert!(matches!(
            error("RULE:(a)/$2/"),
            MappingError::Group { group: 2, .. }
        ));
        let none: [&str; 0] = [];
        assert_eq!(
            SubjectMapping::parse(&none).unwrap_err(),
            MappingError::Empty
        );
        let many = ["DEFAULT"; RULES_MAX + 1];
        assert_eq!(
            SubjectMapping::parse(&many).unwrap_err(),
            MappingError::Count
        );
    }

    proptest! {
        #[test]
        fn random_rules_never_panic(rule in ".{0,40}", subject in ".{0,40}") {
            for rule in [rule.clone(), format!("RULE:{rule}"), format!("RULE:(.*)/{rule}/")] {
                if let Ok(mapping) = SubjectMapping::parse(&[rule]) {
                    let _ = mapping.name(&subject);
                }
            }
        }
    }
}
