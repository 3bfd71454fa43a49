//! Claims of a client, and paths into them.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::identity::UserIdentity;

/// Maximum number of values of a claim that a rule uses.
pub const CLAIM_VALUES_MAX: usize = 1_000;
/// Maximum number of names in a path.
const STEPS_MAX: usize = 8;
/// Members that Weir sets. Claims of a token with these names are removed.
const OWN_MEMBERS: [&str; 2] = ["weir", "tls"];

/// Path to a claim: names separated by dots, quoted if they contain characters other than letters,
/// digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimPath {
    steps: Box<[Box<str>]>,
}

/// Text that is not a claim path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid claim path \"{0}\"; write NAME.NAME or \"NAME\", at most {STEPS_MAX} names")]
pub struct ClaimPathError(pub String);

impl ClaimPath {
    /// Parses `a.b` or `a."https://x/roles"`.
    pub fn parse(text: &str) -> Result<Self, ClaimPathError> {
        let error = || ClaimPathError(text.to_owned());
        let mut steps: Vec<Box<str>> = Vec::new();
        let mut rest = text;
        loop {
            let (name, after) = first_name(rest).ok_or_else(error)?;
            steps.push(name.into());
            match after.strip_prefix('.') {
                Some(after) => rest = after,
                None if after.is_empty() => break,
                None => return Err(error()),
            }
        }
        match steps.len() <= STEPS_MAX {
            true => Ok(Self {
                steps: steps.into(),
            }),
            false => Err(error()),
        }
    }

    /// Returns the names.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &str> {
        self.steps.iter().map(|step| &**step)
    }
}

/// Splits off the first name of a path.
fn first_name(text: &str) -> Option<(&str, &str)> {
    let (name, after) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => text.split_at(text.find(|c| !is_plain(c)).unwrap_or(text.len())),
    };
    (!name.is_empty()).then_some((name, after))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

impl fmt::Display for ClaimPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            match step.chars().all(is_plain) {
                true => write!(f, "{dot}{step}")?,
                false => write!(f, "{dot}\"{step}\"")?,
            }
        }
        Ok(())
    }
}

/// A claim with more values than a rule may use.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("claim \"{path}\" has {count} values, rules allow {CLAIM_VALUES_MAX}")]
pub struct TooManyValues {
    /// The claim.
    pub path: ClaimPath,
    /// Values that it has.
    pub count: usize,
}

/// Claims of a client: members of its token and those that Weir sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Creates claims from the members of a token, or of a claims file of `weir gateway explain`.
    /// Removes the names that Weir sets.
    pub fn of_token(mut members: Map<String, Value>) -> Self {
        for name in OWN_MEMBERS {
            members.remove(name);
        }
        Self(members)
    }

    /// Returns the claims of a group that Weir sets.
    pub fn own(&self, group: ReservedClaims) -> Option<&Value> {
        self.0.get(group.member())
    }

    /// Replaces the claims of a group that Weir sets.
    pub fn replace_own(&mut self, group: ReservedClaims, claims: Value) {
        self.0.insert(group.member().to_owned(), claims);
    }

    /// Sets one of Weir's own claims: `weir.NAME` or `tls.NAME`.
    pub fn set_own(&mut self, group: ReservedClaims, name: &str, value: Value) {
        let members = self
            .0
            .entry(group.member())
            .or_insert_with(|| Map::new().into());
        if let Value::Object(members) = members {
            members.insert(name.to_owned(), value);
        }
    }

    /// Sets `weir.auth` and `weir.user`, for rules about them.
    pub fn set_identity(&mut self, identity: &UserIdentity) {
        self.set_own(
            ReservedClaims::Weir,
            "auth",
            identity.method().as_str().into(),
        );
        if !identity.user().is_empty() {
            self.set_own(ReservedClaims::Weir, "user", identity.user().into());
        }
    }

    /// Returns the value at a path.
    pub fn get(&self, path: &ClaimPath) -> Option<&Value> {
        let mut steps = path.steps();
        let first = self.0.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.as_object()?.get(step))
    }

    /// Returns the values of a claim as texts: one for a scalar, one per element for a list. Only
    /// strings, integers and booleans count, except the string `null`.
    ///
    /// # Errors
    /// [`TooManyValues`] if the list has more than [`CLAIM_VALUES_MAX`] elements.
    pub fn texts(&self, path: &ClaimPath) -> Result<Vec<Cow<'_, str>>, TooManyValues> {
        let values = match self.get(path) {
            None => &[],
            Some(Value::Array(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
        };
        let count = values.len();
        if count > CLAIM_VALUES_MAX {
            let path = path.clone();
            return Err(TooManyValues { path, count });
        }
        Ok(values.iter().filter_map(text).collect())
    }
}

/// Groups of claims that Weir sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedClaims {
    /// How the client was identified, and its name.
    Weir,
    /// Subject and alternative names of the client's certificate.
    Tls,
}

impl ReservedClaims {
    fn member(self) -> &'static str {
        match self {
            Self::Weir => OWN_MEMBERS[0],
            Self::Tls => OWN_MEMBERS[1],
        }
    }
}

/// Returns the canonical text of a scalar; `None` for a value that rules cannot use.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        // A null key of a record appears as this text in item names.
        Value::String(text) if text == "null" => None,
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Bool(value) => Some(Cow::Borrowed(if *value { "true" } else { "false" })),
        Value::Number(number) if !number.is_f64() => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_object;

    fn texts(path: &str, json: &str) -> Vec<String> {
        let claims = Claims::of_token(parse_object(json.as_bytes()).unwrap());
        let texts = claims.texts(&ClaimPath::parse(path).unwrap()).unwrap();
        texts.into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn paths_are_parsed_and_written_alike() {
        for path in ["a", "a.b-c.d_1", r#""https://x/roles".a"#, r#"a."b c"."#] {
            match ClaimPath::parse(path) {
                Ok(parsed) => assert_eq!(parsed.to_string(), path),
                Err(error) => assert_eq!(error.0, path),
            }
        }
        assert_eq!(
            ClaimPath::parse("\"a\".b").unwrap(),
            ClaimPath::parse("a.b").unwrap()
        );
        for path in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "\"a",
            "\"\"",
            "a\"b\"",
            "é",
            "a.b.c.d.e.f.g.h.i",
        ] {
            assert!(ClaimPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn scalars_and_lists_have_texts() {
        let json = r#"{"a":{"b":"x"},"n":-7,"t":true,"l":["a",1,false,null,"null",{},1.5,[2]],
            "f":1.0,"z":null,"s":"null","big":18446744073709551615}"#;
        assert_eq!(texts("a.b", json), ["x"]);
        assert_eq!(texts("n", json), ["-7"]);
        assert_eq!(texts("t", json), ["true"]);
        assert_eq!(texts("l", json), ["a", "1", "false"]);
        assert_eq!(texts("big", json), ["18446744073709551615"]);
        for path in ["f", "z", "s", "a", "a.b.c", "l.a", "absent"] {
            assert_eq!(texts(path, json), [""; 0], "{path}");
        }
    }

    #[test]
    fn long_lists_are_an_error() {
        let list = |count: usize| format!(r#"{{"l":[{}]}}"#, vec!["1"; count].join(","));
        assert_eq!(texts("l", &list(CLAIM_VALUES_MAX)).len(), CLAIM_VALUES_MAX);
        let claims = Claims::of_token(parse_object(list(1001).as_bytes()).unwrap());
        let path = ClaimPath::parse("l").unwrap();
        assert_eq!(claims.texts(&path).unwrap_err().count, 1001);
    }

    #[test]
    fn tokens_cannot_set_claims_of_weir() {
        let json = r#"{"weir":{"auth":"jwt"},"tls":{"subject":"CN=x"},"weir.auth":"jwt"}"#;
        let mut claims = Claims::of_token(parse_object(json.as_bytes()).unwrap());
        let auth = ClaimPath::parse("weir.auth").unwrap();
        assert_eq!(claims.get(&auth), None);
        claims.set_identity(&UserIdentity::anonymous());
        assert_eq!(claims.get(&auth), Some(&"anonymous".into()));
        assert_eq!(claims.get(&ClaimPath::parse("weir.user").unwrap()), None);
        let subject = ClaimPath::parse("tls.subject").unwrap();
        assert_eq!(claims.get(&subject), None);
    }
}
