//! Expands variables in attributes and texts: `$env.NAME`, and `\$` for a literal dollar sign.

/// Replaces every `$env.NAME` by the result of `env` and every `\$` by `$`.
///
/// A name consists of ASCII letters, digits and `_`. A dollar sign in any other form stays
/// unchanged. Undefined variables are returned as an error, each once.
pub(crate) fn expand(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<String, Vec<String>> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let mut undefined: Vec<String> = Vec::new();
    while let Some(at) = rest.find('$') {
        let (before, variable_on) = rest.split_at(at);
        rest = &variable_on[1..];
        if let Some(before) = before.strip_suffix('\\') {
            out.push_str(before);
            out.push('$');
            continue;
        }
        out.push_str(before);
        let Some(name) = variable(variable_on) else {
            out.push('$');
            continue;
        };
        rest = &variable_on[PREFIX.len() + name.len()..];
        match env(name) {
            Some(value) => out.push_str(&value),
            None if undefined.iter().any(|other| other == name) => {}
            None => undefined.push(name.to_owned()),
        }
    }
    out.push_str(rest);
    match undefined.is_empty() {
        true => Ok(out),
        false => Err(undefined),
    }
}

const PREFIX: &str = "$env.";

/// Returns the name in a text that starts with `$env.NAME`.
fn variable(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(PREFIX)?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let len = rest.bytes().position(|b| !is_name(b)).unwrap_or(rest.len());
    (len > 0).then_some(&rest[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("kafka".into()),
            "topic_mapping" => Some("map.LTest.to".into()),
            "EMPTY" => Some(String::new()),
            "DOLLAR" => Some("$env.HOST".into()),
            _ => None,
        }
    }

    #[test]
    fn variables_and_escapes_are_expanded() {
        let rows = [
            ("", ""),
            ("plain", "plain"),
            ("$env.HOST:9092", "kafka:9092"),
            ("$env.topic_mapping", "map.LTest.to"),
            ("a$env.EMPTY.b$env.HOST", "a.bkafka"),
            (r"\$ConnectionString", "$ConnectionString"),
            (r"\$env.HOST", "$env.HOST"),
            (r"\\$env.HOST", r"\$env.HOST"),
            (r"\$\$", "$$"),
            ("a$b $ $env. $$env.HOST$", "a$b $ $env. $kafka$"),
            (r"\n#{KEY}", r"\n#{KEY}"),
            ("$env.DOLLAR", "$env.HOST"),
            ("ü$env.HOSTé", "ükafkaé"),
        ];
        for (text, expected) in rows {
            assert_eq!(expand(text, &env).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn undefined_variables_are_listed_once() {
        let undefined = |text| expand(text, &env).unwrap_err();
        assert_eq!(undefined("x-$env.NOPE-y"), ["NOPE"]);
        assert_eq!(undefined("$env.B:$env.HOST,$env.A:$env.B"), ["B", "A"]);
    }
}
