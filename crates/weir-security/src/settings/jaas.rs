//! The line of `sasl.jaas.config`: a login module, a flag and options.
//!
//! Values may be quoted with `"` or, as the connector writes them, with `'`. Inside double quotes a
//! backslash escapes the next character, as in Java's tokenizer.

use super::error::JaasError;
use crate::secret::Secret;

/// Login module of a JAAS line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginModule {
    Plain,
    Scram,
    OAuthBearer,
    Iam,
    Kerberos,
}

impl LoginModule {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PlainLoginModule",
            Self::Scram => "ScramLoginModule",
            Self::OAuthBearer => "OAuthBearerLoginModule",
            Self::Iam => "IAMLoginModule",
            Self::Kerberos => "Krb5LoginModule",
        }
    }

    fn find(class: &str) -> Option<Self> {
        let name = class.rsplit('.').next()?;
        let all = [
            Self::Plain,
            Self::Scram,
            Self::OAuthBearer,
            Self::Iam,
            Self::Kerberos,
        ];
        all.into_iter().find(|module| module.name() == name)
    }

    fn belongs_to(self, mechanism: &str) -> bool {
        match self {
            Self::Plain => mechanism == "PLAIN",
            Self::Scram => mechanism.starts_with("SCRAM-SHA-"),
            Self::OAuthBearer => mechanism == "OAUTHBEARER",
            Self::Iam => mechanism == "AWS_MSK_IAM",
            Self::Kerberos => mechanism == "GSSAPI",
        }
    }
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JaasLine {
    pub(super) module: LoginModule,
    options: Vec<(String, Secret)>,
}

impl JaasLine {
    /// Parses the line of a client.
    pub(super) fn parse(text: &str) -> Result<Self, JaasError> {
        if text.len() > BYTES_MAX {
            return Err(JaasError::TooLong { max: BYTES_MAX });
        }
        let mut words = Words { text, at: 0 };
        let class = words.bare(&['=', ';']).ok_or(JaasError::NoModule)?;
        let module = LoginModule::find(class).ok_or_else(|| JaasError::UnknownModule {
            module: class.to_owned(),
        })?;
        let flag = words.bare(&['=', ';']).unwrap_or_default();
        if !FLAGS.contains(&flag.to_ascii_lowercase().as_str()) {
            let flag = flag.to_owned();
            return Err(JaasError::Flag { flag });
        }
        let mut options: Vec<(String, Secret)> = Vec::new();
        loop {
            words.blanks();
            if words.rest().is_empty() {
                return Err(JaasError::NoEnd);
            }
            if words.eat(';') {
                break;
            }
            let (name, value) = words.option()?;
            if options.iter().any(|(other, _)| *other == name) {
                return Err(JaasError::Twice { option: name });
            }
            options.push((name, value));
        }
        words.blanks();
        match words.rest().is_empty() {
            true => Ok(Self { module, options }),
            false => Err(JaasError::Several),
        }
    }

    /// Checks that the module belongs to a mechanism.
    pub(super) fn check_mechanism(&self, mechanism: &str) -> Result<(), JaasError> {
        if self.module.belongs_to(mechanism) {
            return Ok(());
        }
        Err(JaasError::OtherMechanism {
            module: self.module.name(),
            mechanism: mechanism.to_owned(),
        })
    }

    /// Checks that all options are known; those in `ignored` have no effect here.
    pub(super) fn check_options(&self, known: &[&str], ignored: &[&str]) -> Result<(), JaasError> {
        for (name, _) in &self.options {
            let same = |other: &&str| match other.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => other == name,
            };
            if ignored.iter().any(&same) {
                let module = self.module.name();
                tracing::debug!(option = %name, module, "JAAS option has no effect");
            } else if !known.iter().any(same) {
                return Err(JaasError::UnknownOption {
                    option: name.clone(),
                    module: self.module.name(),
                    possible: known.join(", "),
                });
            }
        }
        Ok(())
    }

    /// Returns the value of an option.
    pub(super) fn option(&self, name: &str) -> Option<&Secret> {
        let same = |(other, _): &&(String, Secret)| other == name;
        self.options.iter().find(same).map(|(_, value)| value)
    }

    /// Returns `true` if an option has the value `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        let value = self.option(name);
        value.is_some_and(|value| value.reveal().eq_ignore_ascii_case("true"))
    }

    /// Returns the options with a prefix, without it.
    pub(super) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Secret)> {
        let options = self.options.iter();
        options.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }
}

struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    /// Returns the text up to a blank, a quotation mark or one of `ends`, if there is any.
    fn bare(&mut self, ends: &[char]) -> Option<&'a str> {
        self.blanks();
        let rest = self.rest();
        let ends = |it: char| it.is_whitespace() || it == '"' || it == '\'' || ends.contains(&it);
        let (word, _) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        self.at += word.len();
        (!word.is_empty()).then_some(word)
    }

    fn option(&mut self) -> Result<(String, Secret), JaasError> {
        let at = self.position();
        let name = self.bare(&['=', ';']).ok_or(JaasError::Unexpected { at })?;
        let option = name.to_owned();
        self.blanks();
        if !self.eat('=') {
            return Err(JaasError::NoValue { option });
        }
        self.blanks();
        let value = match self.rest().chars().next() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
            _ => match self.bare(&[';']) {
                Some(word) => word.to_owned(),
                None => return Err(JaasError::NoValue { option }),
            },
        };
        Ok((option, Secret::new(value)))
    }

    fn quoted(&mut self, quote: char) -> Result<String, JaasError> {
        let at = self.position();
        self.eat(quote);
        let mut value = String::new();
        let mut rest = self.rest().char_indices();
        while let Some((index, found)) = rest.next() {
            match found {
                '\\' => match rest.next().ok_or(JaasError::Unclosed { at })?.1 {
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'r' => value.push('\r'),
                    other => value.push(other),
                },
                found if found == quote => {
                    self.at += index + quote.len_utf8();
                    return Ok(value);
                }
                found => value.push(found),
            }
        }
        Err(JaasError::Unclosed { at })
    }

    /// Returns the position in characters, starting at 1. The text itself is secret.
    fn position(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }
}

const BYTES_MAX: usize = 64 << 10;
const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required ";

    fn parse(options: &str) -> Result<JaasLine, JaasError> {
        JaasLine::parse(&format!("{PLAIN}{options}"))
    }

    fn value(options: &str, name: &str) -> String {
        let line = parse(options).expect("a valid line");
        line.option(name).expect("the option").reveal().to_owned()
    }

    #[test]
    fn values_are_quoted_in_three_ways() {
        assert_eq!(value("username=\"a b\" password=c;", "username"), "a b");
        assert_eq!(value("username='a\"b' password='c;d';", "password"), "c;d");
        assert_eq!(
            value(" username = \"a\"\n password\t=\"\" ; \n", "password"),
            ""
        );
        assert_eq!(value(r#"password="a\"b\\c\td";"#, "password"), "a\"b\\c\td");
        let line = parse("username=alice password=\"x\";").expect("valid");
        assert_eq!(line.module, LoginModule::Plain);
        assert!(line.check_mechanism("PLAIN").is_ok());
        assert!(line.check_options(&["username", "password"], &[]).is_ok());
    }

    #[test]
    fn errors_name_the_place_and_no_secret() {
        let error = |text: &str| JaasLine::parse(text).expect_err(text).to_string();
        for (options, expected) in [
            (
                "username=\"a",
                "a quotation mark at character 75 is not closed",
            ),
            ("username=\"a\"", "the line does not end with \";\""),
            ("username;", "option \"username\" has no value"),
            ("a=1 a=2;", "option \"a\" is given twice"),
            ("=x;", "unexpected text at character 66"),
            ("a=b; c=d;", "several login modules"),
        ] {
            let text = error(&format!("{PLAIN}{options}"));
            assert!(text.starts_with(expected), "{options}: {text}");
        }
        assert!(error("").starts_with("no login module"));
        assert!(error("x.YLoginModule required;").starts_with("unknown login module \"x.YLogin"));
        assert!(error("PlainLoginModule username=\"s3cret\";").starts_with("\"username\" is not"));
        let other = parse("a=b;").expect("valid").check_mechanism("OAUTHBEARER");
        assert_eq!(
            other.expect_err("another module").to_string(),
            "login module PlainLoginModule does not belong to sasl.mechanism OAUTHBEARER"
        );
        let unknown = parse("user=\"s3cret\";").expect("valid");
        let unknown = unknown.check_options(&["username", "password"], &["x*"]);
        let text = unknown.expect_err("unknown").to_string();
        assert!(
            text.contains("use username, password") && !text.contains("s3cret"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn quoted_values_are_read_back(username in "\\PC{0,12}", password in "\\PC{0,12}") {
            let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
            let (user, pass) = (quote(&username), quote(&password));
            let options = format!("username=\"{user}\" password=\"{pass}\";");
            prop_assert_eq!(value(&options, "username"), username);
            prop_assert_eq!(value(&options, "password"), password);
        }

        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,80}") {
            let _ = JaasLine::parse(&text);
            let _ = parse(&text);
        }
    }
}
