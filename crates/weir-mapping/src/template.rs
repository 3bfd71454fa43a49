//! Item templates: `PREFIX-#{p1=EXPR1,p2=EXPR2,...}`.

use std::collections::BTreeMap;

use weir_formats::error::ExpressionError;
use weir_formats::expression::Expression;
use weir_formats::white_space::has_line_end;

use crate::error::TemplateError;
use crate::item_name::{is_prefix, item_parameters};

/// A parsed item template; parameters are sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemTemplate {
    prefix: Box<str>,
    parameters: Vec<(Box<str>, Expression)>,
}

impl ItemTemplate {
    /// Parses a template with at least one parameter.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let (prefix, list) = split(text).ok_or(TemplateError::Invalid)?;
        let mut parameters = BTreeMap::new();
        for parameter in item_parameters(list) {
            let (name, value) = parameter.ok_or(TemplateError::Invalid)?;
            if parameters.contains_key(name) {
                return Err(TemplateError::DuplicateParameter);
            }
            let expression = Expression::parse(value)?;
            if expression.is_wildcard() {
                return Err(ExpressionError::UnexpectedWildcard(value.to_owned()).into());
            }
            parameters.insert(name, expression);
        }
        let parameters = parameters
            .into_iter()
            .map(|(name, e)| (name.into(), e))
            .collect();
        Ok(Self {
            prefix: prefix.into(),
            parameters,
        })
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the parameter names and expressions, sorted by name.
    pub(crate) fn parameters(&self) -> impl ExactSizeIterator<Item = (&str, &Expression)> {
        self.parameters
            .iter()
            .map(|(name, expression)| (&**name, expression))
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let (head, rest) = text.split_once("#{")?;
    let prefix = head.strip_suffix('-')?;
    let list = rest.strip_suffix('}')?;
    (is_prefix(prefix) && !list.is_empty() && !has_line_end(list)).then_some((prefix, list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let template = ItemTemplate::parse(text).unwrap();
        template
            .parameters()
            .map(|(name, e)| format!("{name}={}", e.text()))
            .collect()
    }

    #[test]
    fn parameters_are_sorted_by_name() {
        let template = ItemTemplate::parse("a-b_1-#{key=KEY}").unwrap();
        assert_eq!(template.prefix(), "a-b_1");
        assert_eq!(
            names("x-#{b=KEY,A=TOPIC,_c=VALUE['k'],.d=OFFSET,}"),
            [".d=OFFSET", "A=TOPIC", "_c=VALUE['k']", "b=KEY",]
        );
    }

    #[test]
    fn malformed_templates_are_rejected() {
        for text in [
            "",
            "ltest",
            "x-",
            "x-#{}",
            "x#{k=KEY}",
            "-#{k=KEY}",
            "x-#{k=KEY",
            "x-#{k=KEY}y",
            "x-{k=KEY}",
            "x.y-#{k=KEY}",
            "x -#{k=KEY}",
            "x-#{KEY}",
            "x-#{k=}",
            "x-#{=KEY}",
            "x-#{k=KEY, j=VALUE}",
            "x-#{k=KEY,,j=VALUE}",
            "x-#{a-b=KEY}",
            "x-#{1a=KEY}",
            "x-#{,}",
            "x-#{ k=KEY}",
            "x-[k=1]",
            "x-#{a.b=KEY}",
        ] {
            assert_eq!(
                ItemTemplate::parse(text),
                Err(TemplateError::Invalid),
                "{text:?}"
            );
        }
        let duplicate = ItemTemplate::parse("x-#{k=KEY,k=VALUE}");
        assert_eq!(duplicate, Err(TemplateError::DuplicateParameter));
    }

    #[test]
    fn expression_errors_are_returned() {
        let rows = [
            ("x-#{k=FOO}", ExpressionError::MissingRoot("FOO".into())),
            (
                "x-#{k=VALUE.}",
                ExpressionError::TrailingDot("VALUE.".into()),
            ),
            ("x-#{k= KEY}", ExpressionError::WhiteChar(" KEY".into())),
            (
                "x-#{k=VALUE.*}",
                ExpressionError::UnexpectedWildcard("VALUE.*".into()),
            ),
            (
                "x-#{k=VALUE.a[b]}",
                ExpressionError::InvalidIndex("VALUE.a[b]".into()),
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(
                ItemTemplate::parse(text),
                Err(TemplateError::Expression(expected))
            );
        }
    }
}
