//! Reads the output of `kafka-acls.sh --list`.

use thiserror::Error;

use super::address::AddressRangeError;
use super::operation::{AclOperation, ResourceType, UnknownWord};
use super::rule::{AclRule, Effect, NamePattern};

/// A line that is not part of a list of ACLs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct ListingError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Cause.
    pub reason: String,
}

/// Problem of a line.
#[derive(Debug, Error)]
enum LineProblem {
    #[error("an entry before the first \"Current ACLs for resource\"")]
    NoResource,
    #[error("not a resource or an entry of kafka-acls.sh --list")]
    Unknown,
    #[error("{0}= is missing")]
    Missing(&'static str),
    #[error("unknown pattern type \"{0}\"")]
    PatternType(String),
    #[error("unknown permission type \"{0}\"")]
    PermissionType(String),
    #[error("host: {0}")]
    Host(#[from] AddressRangeError),
    #[error(transparent)]
    Word(#[from] UnknownWord),
}

/// Returns the rules in a list of ACLs. `file` names it in the rules' origins.
pub fn parse_listing(text: &str, file: &str) -> Result<Vec<AclRule>, ListingError> {
    let mut rules = Vec::new();
    let mut resource = None;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let wrong = |problem: LineProblem| ListingError {
            line: line_number,
            reason: problem.to_string(),
        };
        let line = line.trim();
        let origin = format!("{file}:{line_number}");
        if line.is_empty() {
            continue;
        }
        if let Some(pattern) = inside(line, RESOURCE_START, ")`:") {
            resource = Some(read_resource(pattern).map_err(wrong)?);
        } else if let Some(entry) = inside(line, "(", ")") {
            let found = resource.clone().ok_or(LineProblem::NoResource);
            let (resource_type, names) = found.map_err(wrong)?;
            let entry = read_entry(entry).map_err(wrong)?;
            rules.push(AclRule {
                resource_type,
                names,
                origin: origin.into(),
                ..entry
            });
        } else {
            return Err(wrong(LineProblem::Unknown));
        }
    }
    Ok(rules)
}

const RESOURCE_START: &str = "Current ACLs for resource `ResourcePattern(";

fn inside<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    line.strip_prefix(start)?.strip_suffix(end)
}

/// Splits `key=value` pairs at the given keys. Values may contain commas and equals signs.
fn values<'a, const N: usize>(
    text: &'a str,
    keys: [&'static str; N],
) -> Result<[&'a str; N], LineProblem> {
    let mut values = [""; N];
    let mut rest = text;
    for (index, key) in keys.iter().enumerate().rev() {
        let found = match index {
            0 => rest.strip_prefix(*key).and_then(|it| it.strip_prefix('=')),
            _ => rest
                .rsplit_once(&format!(", {key}="))
                .map(|(before, value)| {
                    rest = before;
                    value
                }),
        };
        values[index] = found.ok_or(LineProblem::Missing(key))?;
    }
    Ok(values)
}

fn read_resource(text: &str) -> Result<(ResourceType, NamePattern), LineProblem> {
    let [kind, name, pattern] = values(text, ["resourceType", "name", "patternType"])?;
    let names = match pattern {
        "LITERAL" if name == "*" => NamePattern::Any,
        "LITERAL" => NamePattern::Literal(name.into()),
        "PREFIXED" => NamePattern::Prefix(name.into()),
        _ => return Err(LineProblem::PatternType(pattern.to_owned())),
    };
    Ok((kind.parse()?, names))
}

fn read_entry(text: &str) -> Result<AclRule, LineProblem> {
    let keys = ["principal", "host", "operation", "permissionType"];
    let [principal, host, operation, permission] = values(text, keys)?;
    let operation: AclOperation = operation.parse()?;
    let effect = match permission {
        "ALLOW" => Effect::Allow,
        "DENY" => Effect::Deny,
        _ => return Err(LineProblem::PermissionType(permission.to_owned())),
    };
    Ok(AclRule {
        principal: principal.into(),
        addresses: host.parse()?,
        operation,
        effect,
        resource_type: ResourceType::Topic,
        names: NamePattern::Any,
        origin: "".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`: 
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
\t(principal=User:CN=bob,OU=x, host=198.51.100.3, operation=ALL, permissionType=DENY) 

Current ACLs for resource `ResourcePattern(resourceType=TRANSACTIONAL_ID, name=tx-, \
patternType=PREFIXED)`: 
 \t(principal=User:*, host=*, operation=DESCRIBE_CONFIGS, permissionType=ALLOW) 

Current ACLs for resource `ResourcePattern(resourceType=GROUP, name=*, patternType=LITERAL)`: 
 \t(principal=User:carol, host=*, operation=TWO_PHASE_COMMIT, permissionType=ALLOW) 
";

    #[test]
    fn list_of_kafka_acls_is_read() {
        let rules = parse_listing(LISTING, "acls.txt").expect("reads");
        let texts: Vec<_> = rules.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "allow User:alice READ on TOPIC orders (acls.txt:2)",
                "deny User:CN=bob,OU=x from 198.51.100.3 ALL on TOPIC orders (acls.txt:3)",
                "allow User:* DESCRIBE_CONFIGS on TRANSACTIONAL_ID tx-* (acls.txt:6)",
                "allow User:carol TWO_PHASE_COMMIT on GROUP * (acls.txt:9)",
            ]
        );
    }

    #[test]
    fn unknown_syntax_is_an_error() {
        let resource = LISTING.lines().next().expect("a line");
        let entry = "(principal=User:a, host=*, operation=READ, permissionType=ALLOW)";
        let cases = [
            (entry.to_owned(), 1),
            ("Error: no connection".to_owned(), 1),
            (format!("{resource}\n{}", entry.replace("READ", "SING")), 2),
            (
                format!("{resource}\n{}", entry.replace("ALLOW", "MAYBE")),
                2,
            ),
            (
                format!("{resource}\n{}", entry.replace("host=*", "host=me")),
                2,
            ),
            (
                format!(
                    "{resource}\n{}",
                    entry.replace("(principal=", "(x=1, principal=")
                ),
                2,
            ),
            (resource.replace("LITERAL", "MATCH"), 1),
            (resource.replace("TOPIC", "QUEUE"), 1),
        ];
        for (text, line) in cases {
            let error = parse_listing(&text, "f").expect_err(&text);
            assert_eq!(error.line, line, "{error}");
        }
    }
}
