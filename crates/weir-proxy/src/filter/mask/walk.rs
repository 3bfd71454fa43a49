//! Copies valid JSON and replaces some members.

/// Appends `text` to `out` with `with` in place of each selected member. Returns `true` if there
/// was one. `text` must be valid JSON of limited depth.
pub(super) fn mask(text: &str, members: &[Vec<String>], with: &str, out: &mut Vec<u8>) -> bool {
    let all = match members.len() {
        64 => u64::MAX,
        few => (1 << few) - 1,
    };
    let mut masker = JsonMasker {
        bytes: text.as_bytes(),
        at: 0,
        copied: 0,
        members,
        with: with.as_bytes(),
        out,
        is_masked: false,
    };
    masker.value(all, 0);
    let (copied, is_masked) = (masker.copied, masker.is_masked);
    out.extend_from_slice(&text.as_bytes()[copied..]);
    is_masked
}

struct JsonMasker<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Position up to which bytes are copied or replaced.
    copied: usize,
    members: &'a [Vec<String>],
    with: &'a [u8],
    out: &'a mut Vec<u8>,
    is_masked: bool,
}

impl JsonMasker<'_> {
    /// Processes one value. `candidates` has a bit for every member path whose first `depth` names
    /// match.
    fn value(&mut self, candidates: u64, depth: usize) {
        self.skip_blanks();
        match self.peek() {
            b'{' => self.object(candidates, depth),
            b'[' => self.array(candidates, depth),
            b'"' => self.string(),
            _ => self.scalar(),
        }
    }

    fn object(&mut self, candidates: u64, depth: usize) {
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.peek() {
                b'"' => {}
                b',' => {
                    self.at += 1;
                    continue;
                }
                // The end of the object, or the end of the text, which valid JSON excludes.
                _ => break self.at += 1,
            }
            let start = self.at;
            self.string();
            let (matched, is_whole) =
                self.match_name(&self.bytes[start..self.at], candidates, depth);
            self.skip_blanks();
            self.at += 1; // the colon
            self.skip_blanks();
            let start = self.at;
            // Nothing is searched inside a masked value.
            self.value(if is_whole { 0 } else { matched }, depth + 1);
            if is_whole {
                self.replace(start);
            }
        }
    }

    /// Returns the member paths that match `quoted`, and `true` if it is the last name of one.
    fn match_name(&self, quoted: &[u8], candidates: u64, depth: usize) -> (u64, bool) {
        if candidates == 0 {
            return (0, false);
        }
        let plain = &quoted[1..quoted.len() - 1];
        // A name can be escaped in several ways.
        let decoded = match plain.contains(&b'\\') {
            true => serde_json::from_slice::<String>(quoted).ok(),
            false => None,
        };
        let name = decoded.as_ref().map_or(plain, |name| name.as_bytes());
        let (mut matched, mut is_whole) = (0, false);
        for (bit, member) in self.members.iter().enumerate() {
            let wanted = member.get(depth).filter(|_| candidates & (1 << bit) != 0);
            if wanted.is_some_and(|wanted| wanted == "*" || wanted.as_bytes() == name) {
                matched |= 1 << bit;
                is_whole |= member.len() == depth + 1;
            }
        }
        (matched, is_whole)
    }

    fn array(&mut self, candidates: u64, depth: usize) {
        self.at += 1;
        loop {
            self.skip_blanks();
            match self.peek() {
                b']' | END => break self.at += 1,
                b',' => self.at += 1,
                _ => self.value(candidates, depth),
            }
        }
    }

    fn string(&mut self) {
        self.at += 1;
        loop {
            match self.peek() {
                b'\\' => self.at += 2,
                b'"' | END => break self.at += 1,
                _ => self.at += 1,
            }
        }
    }

    fn scalar(&mut self) {
        while !matches!(self.peek(), b',' | b'}' | b']' | END) && !is_blank(self.peek()) {
            self.at += 1;
        }
    }

    fn replace(&mut self, start: usize) {
        self.out.extend_from_slice(&self.bytes[self.copied..start]);
        self.out.extend_from_slice(self.with);
        self.copied = self.at;
        self.is_masked = true;
    }

    fn skip_blanks(&mut self) {
        while is_blank(self.peek()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(END)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returned at the end of the text. Valid JSON does not contain this byte.
const END: u8 = 0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn masked(text: &str, members: &[&str]) -> String {
        let split = |path: &&str| path.split('.').map(str::to_owned).collect();
        let members: Vec<Vec<String>> = members.iter().map(split).collect();
        let mut out = Vec::new();
        let is_masked = mask(text, &members, "\"*\"", &mut out);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(is_masked, out != text || text.contains("\"*\""));
        out
    }

    #[test]
    fn only_selected_members_are_replaced() {
        let text = r#" {"a" : 1.50,"b":{"c":[1,{"d":2}], "a":null}, "a":{"x":"}\""} } "#;
        assert_eq!(
            masked(text, &["a"]),
            r#" {"a" : "*","b":{"c":[1,{"d":2}], "a":null}, "a":"*" } "#
        );
        assert_eq!(
            masked(text, &["b.c.d", "b.a"]),
            r#" {"a" : 1.50,"b":{"c":[1,{"d":"*"}], "a":"*"}, "a":{"x":"}\""} } "#
        );
        assert_eq!(
            masked(text, &["*.x"]),
            r#" {"a" : 1.50,"b":{"c":[1,{"d":2}], "a":null}, "a":{"x":"*"} } "#
        );
        assert_eq!(masked(text, &["none", "b.none"]), text);
    }

    #[test]
    fn escaped_names_match() {
        assert_eq!(masked(r#"{"p\u0069n":1}"#, &["pin"]), r#"{"p\u0069n":"*"}"#);
        assert_eq!(masked(r#"{"pi\"n":1}"#, &["pi\"n"]), r#"{"pi\"n":"*"}"#);
        assert_eq!(
            masked(r#"[{"pin":[1,2]},3]"#, &["pin"]),
            r#"[{"pin":"*"},3]"#
        );
        assert_eq!(masked("3", &["pin"]), "3");
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ab\"\\\\{}\\[\\],:é\n]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let name = prop_oneof![Just("a".to_owned()), Just("b\"".to_owned()), "[a-c\n]{0,2}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name, inner), 0..4)
                    .prop_map(|rows| Value::Object(rows.into_iter().collect())),
            ]
        })
    }

    /// A naive implementation on parsed values.
    fn model(value: &Value, members: &[Vec<String>], depth: usize) -> Value {
        match value {
            Value::Array(all) => all.iter().map(|it| model(it, members, depth)).collect(),
            Value::Object(all) => {
                let row = |(name, value): (&String, &Value)| {
                    let matched: Vec<_> = members
                        .iter()
                        .filter(|path| path.get(depth).is_some_and(|it| it == "*" || it == name))
                        .cloned()
                        .collect();
                    let is_whole = matched.iter().any(|path| path.len() == depth + 1);
                    let value = match is_whole {
                        true => json!("*"),
                        false => model(value, &matched, depth + 1),
                    };
                    (name.clone(), value)
                };
                Value::Object(all.iter().map(row).collect())
            }
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn masker_matches_naive_model(value in json(), pretty in any::<bool>()) {
            let paths = ["a", "b\".a", "c.*.a"];
            let members: Vec<Vec<String>> = paths
                .iter()
                .map(|path| path.split('.').map(str::to_owned).collect())
                .collect();
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            let mut out = Vec::new();
            mask(&text, &members, "\"*\"", &mut out);
            let found: Value = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(found, model(&value, &members, 0));
        }
    }
}
