//! The definitions of messages, read from `definitions.txt`.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// Requests and responses of one API.
#[derive(Debug)]
pub struct ApiDefinition {
    /// API key.
    pub key: i16,
    /// Name.
    pub name: &'static str,
    /// Versions.
    pub versions: RangeInclusive<i16>,
    /// First flexible version.
    flexible_from: i16,
    /// Body of requests.
    pub request: StructDefinition,
    /// Body of responses.
    pub response: StructDefinition,
}

impl ApiDefinition {
    /// Returns `true` if this version is flexible: compact lengths, and tagged fields.
    pub fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }
}

/// Returns the definition of an API, or `None` if it is unknown.
pub fn api(key: i16) -> Option<&'static ApiDefinition> {
    static APIS: OnceLock<Vec<ApiDefinition>> = OnceLock::new();
    let apis = APIS.get_or_init(|| read(include_str!("definitions.txt")));
    let at = apis.binary_search_by_key(&key, |api| api.key).ok()?;
    apis.get(at)
}

/// A structure.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StructDefinition {
    /// Fields in the order of the message; those with tags may be anywhere.
    pub fields: Vec<FieldDefinition>,
}

impl StructDefinition {
    /// Returns the position of a field.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// A field.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldDefinition {
    /// Name.
    pub name: &'static str,
    pub(super) kind: FieldKind,
    pub(super) is_array: bool,
    pub(super) is_nullable: bool,
    pub(super) versions: RangeInclusive<i16>,
    pub(super) tag: Option<u32>,
    /// Number that is the default, 0 where there is none.
    pub(super) default: i64,
    pub(super) is_null_by_default: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    Bool,
    I8,
    I16,
    U16,
    I32,
    I64,
    F64,
    Uuid,
    Text,
    Bytes,
    Struct(StructDefinition),
}

impl FieldKind {
    /// Returns the size of a value, or `None` if it varies.
    pub(super) fn fixed_bytes(&self) -> Option<usize> {
        match self {
            Self::Bool | Self::I8 => Some(1),
            Self::I16 | Self::U16 => Some(2),
            Self::I32 => Some(4),
            Self::I64 | Self::F64 => Some(8),
            Self::Uuid => Some(16),
            Self::Text | Self::Bytes | Self::Struct(_) => None,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "i8" => Self::I8,
            "i16" => Self::I16,
            "u16" => Self::U16,
            "i32" => Self::I32,
            "i64" => Self::I64,
            "f64" => Self::F64,
            "uuid" => Self::Uuid,
            "text" => Self::Text,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }
}

impl FieldDefinition {
    /// Returns the definition of the elements of an array, or of a structure.
    pub fn structure(&self) -> Option<&StructDefinition> {
        match &self.kind {
            FieldKind::Struct(structure) => Some(structure),
            _ => None,
        }
    }
}

/// Reads the file of definitions. It is part of the program, and a test reads every line of it, so
/// malformed parts are left out.
fn read(text: &'static str) -> Vec<ApiDefinition> {
    let mut apis: Vec<ApiDefinition> = Vec::new();
    let mut tokens = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .peekable();
    while let Some(key) = tokens.next() {
        let header = [tokens.next(), tokens.next(), tokens.next(), tokens.next()];
        let [Some(name), Some(versions), Some(_), Some(flexible)] = header else {
            break;
        };
        let Some(versions) = range(versions, &(0..=i16::MAX)) else {
            break;
        };
        let mut sides = [StructDefinition::default(), StructDefinition::default()];
        for side in &mut sides {
            // The arrow that begins a side.
            tokens.next();
            side.fields = fields(&mut tokens, &versions);
        }
        let [request, response] = sides;
        apis.push(ApiDefinition {
            key: key.parse().unwrap_or(i16::MAX),
            name,
            versions,
            flexible_from: flexible.parse().unwrap_or(i16::MAX),
            request,
            response,
        });
    }
    apis
}

/// Reads fields up to the end of their structure or message.
fn fields(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'static str>>,
    versions: &RangeInclusive<i16>,
) -> Vec<FieldDefinition> {
    let mut fields = Vec::new();
    loop {
        match tokens.peek() {
            None | Some(&"<") => return fields,
            Some(token) if token.starts_with(|c: char| c.is_ascii_digit()) => return fields,
            Some(&"]" | &"}") => {
                tokens.next();
                return fields;
            }
            Some(_) => {}
        }
        let Some(mut field) = tokens.next().and_then(|token| field(token, versions)) else {
            return fields;
        };
        if let FieldKind::Struct(structure) = &mut field.kind {
            structure.fields = self::fields(tokens, &field.versions);
        }
        fields.push(field);
    }
}

/// Reads `name`, `:type`, `[]` for an array, `?` for null, `:versions`, `@tag`, `=default`. A
/// structure has no type and ends with `{`, an array of structures with `[`.
fn field(token: &'static str, parent: &RangeInclusive<i16>) -> Option<FieldDefinition> {
    let (token, opens) = match token.strip_suffix(['[', '{']) {
        Some(inner) => (inner, token.chars().next_back()),
        None => (token, None),
    };
    let (token, default) = token.split_once('=').unwrap_or((token, ""));
    let (token, tag) = token.split_once('@').unwrap_or((token, ""));
    let mut parts = token.split(':');
    let first = parts.next()?;
    let kind = match opens {
        Some(_) => first,
        None => parts.next()?,
    };
    let (kind, is_nullable) = match kind.strip_suffix('?') {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let (name, kind, is_array) = match (opens, kind.strip_suffix("[]")) {
        (Some(opens), _) => (
            kind,
            FieldKind::Struct(StructDefinition::default()),
            opens == '[',
        ),
        (None, Some(element)) => (first, FieldKind::named(element)?, true),
        (None, None) => (first, FieldKind::named(kind)?, false),
    };
    let versions = match parts.next() {
        Some(versions) => range(versions, parent)?,
        None => parent.clone(),
    };
    Some(FieldDefinition {
        name,
        kind,
        is_array,
        is_nullable,
        versions,
        tag: tag.parse().ok(),
        default: default.parse().unwrap_or(0),
        is_null_by_default: default == "null",
    })
}

/// Reads `1`, `1-3` or `1+`.
fn range(text: &str, parent: &RangeInclusive<i16>) -> Option<RangeInclusive<i16>> {
    if let Some(first) = text.strip_suffix('+') {
        return Some(first.parse().ok()?..=*parent.end());
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::ApiKey;

    #[test]
    fn every_definition_is_read() {
        let text = include_str!("definitions.txt");
        let apis = read(text);
        let header = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
        let headers: Vec<_> = text.lines().filter(header).collect();
        assert_eq!(apis.len(), headers.len());
        assert!(apis.windows(2).all(|pair| pair[0].key < pair[1].key));
        fn count(structure: &StructDefinition) -> usize {
            let nested = structure
                .fields
                .iter()
                .filter_map(FieldDefinition::structure);
            structure.fields.len() + nested.map(count).sum::<usize>()
        }
        let fields: usize = apis
            .iter()
            .map(|api| count(&api.request) + count(&api.response))
            .sum();
        let body = text
            .lines()
            .filter(|line| !line.starts_with('#') && !header(line));
        let named = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
        let words = body.flat_map(str::split_whitespace).filter(named).count();
        assert_eq!(fields, words);
    }

    #[test]
    fn flexible_versions_match_protocol() {
        for key in 0..100 {
            let (Some(api), Ok(known)) = (api(key), ApiKey::try_from(key)) else {
                continue;
            };
            assert_eq!(api.name, format!("{known:?}"));
            for version in api.versions.clone() {
                let header = known.request_header_version(version);
                assert_eq!(api.is_flexible(version), header == 2, "{key} {version}");
            }
        }
        assert!(api(4).is_none() && api(-1).is_none());
    }
}
