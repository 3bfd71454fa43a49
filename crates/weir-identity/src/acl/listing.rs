//! Reads the output of `kafka-acls.sh --list`.

use thiserror::Error;

use super::operation::{AclOperation, ResourceType};
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

/// Returns the rules in a list of ACLs. `file` names it in the rules' origins.
pub fn parse_listing(text: &str, file: &str) -> Result<Vec<AclRule>, ListingError> {
    let mut rules = Vec::new();
    let mut resource = None;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let wrong = |reason: String| ListingError {
            line: line_number,
            reason,
        };
        let line = line.trim();
        let origin = format!("{file}:{line_number}");
        if line.is_empty() {
            continue;
        }
        if let Some(pattern) = inside(line, RESOURCE_START, ")`:") {
            resource = Some(read_resource(pattern).map_err(wrong)?);
        } else if let Some(entry) = inside(line, "(", ")") {
            let (resource_type, names) = resource.clone().ok_or_else(|| {
                wrong("an entry before the first \"Current ACLs for resource\"".to_owned())
            })?;
            let entry = read_entry(entry).map_err(wrong)?;
            rules.push(AclRule {
                resource_type,
                names,
                origin: origin.into(),
                ..entry
            });
        } else {
            return Err(wrong(
                "not a resource or an entry of kafka-acls.sh --list".to_owned(),
            ));
        }
    }
    Ok(rules)
}

const RESOURCE_START: &str = "Current ACLs for resource `ResourcePattern(";

fn inside<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    line.strip_prefix(start)?.strip_suffix(end)
}

/// Splits `key=value` pairs at the given keys. Values may contain commas and equals signs.
fn values<'a, const N: usize>(text: &'a str, keys: [&str; N]) -> Result<[&'a str; N], String> {
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
        values[index] = found.ok_or_else(|| format!("{key}= is missing"))?;
    }
    Ok(values)
}

fn read_resource(text: &str) -> Result<(ResourceType, NamePattern), String> {
    let [kind, name, pattern] = values(text, ["resourceType", "name", "patternType"])?;
    let names = match pattern {
        "LITERAL" if name == "*" => NamePattern::Any,
        "LITERAL" => NamePattern::Literal(name.into()),
        "PREFIXED" => NamePattern::Prefix(name.into()),
        _ => return Err(format!("unknown pattern type \"{pattern}\"")),
    };
    let kind = kind.parse().map_err(|error| format!("{error}"))?;
    Ok((kind, names))
}

fn read_entry(text: &str) -> Result<AclRule, String> {
    let keys = ["principal", "host", "operation", "permissionType"];
    let [principal, host, operation, permission] = values(text, keys)?;
    let operation: AclOperation = operation.parse().map_err(|error| format!("{error}"))?;
    let effect = match permission {
        "ALLOW" => Effect::Allow,
        "DENY" => Effect::Deny,
        _ => return Err(format!("unknown permission type \"{permission}\"")),
    };
    Ok(AclRule {
        principal: principal.into(),
        addresses: host.parse().map_err(|error| format!("host: {error}"))?,
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
    fn what_is_not_understood_is_an_error() {
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
