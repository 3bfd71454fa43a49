//! Compiles templates, topic mappings and fields of a connection into a [`Mapping`].

use std::sync::Arc;

use regex::bytes::Regex;
use weir_formats::error::ExpressionError;
use weir_formats::expression::Expression;

use super::parameter_table::{
    FIELD, FIELD_WILDCARD, ITEM_TEMPLATE, MAP, MAP_SUFFIX, TOPIC_PATTERNS,
};
use super::parameters::{ConnectionParameters, ParameterEntry};
use super::schemas;
use super::source::Findings;
use super::types::text_list;
use crate::command::{COMMAND_FIELD, CommandMode};
use crate::error::{Problem, TemplateError};
use crate::evaluator::{Evaluator, Separators};
use crate::item_name::{CanonicalItem, is_prefix};
use crate::java_regex;
use crate::mapping::{
    FieldOptions, ItemSource, Mapping, NamedSelector, TemplateParameter, TopicSources,
};
use crate::payload::PartConfig;
use crate::record_part::{KeyAndValue, RecordPart};
use crate::schema::SchemaTable;
use crate::selector::{Compiler, Selector};
use crate::template::ItemTemplate;
use crate::wildcard::{MembersSelector, WILDCARD};

const TEMPLATE_REFERENCE: &str = "item-template.";

/// A configured template.
struct DefinedTemplate<'a> {
    name: &'a str,
    entry: &'a ParameterEntry,
    source: Arc<ItemSource>,
    /// A topic refers to it.
    is_used: bool,
}

pub(super) fn compile(
    parameters: &ConnectionParameters,
    parts: &KeyAndValue<PartConfig>,
    command_mode: CommandMode,
    findings: &mut Findings<'_>,
) -> Mapping {
    let compiler = || Compiler::new(parts.clone());
    let (mut for_items, mut for_fields) = (compiler(), compiler());
    let mut templates = Vec::new();
    for (name, entry) in parameters.matching(ITEM_TEMPLATE, "") {
        let mut source = None;
        if entry.is_resolved {
            let compiled = template(name, entry, &mut for_items, findings);
            source = findings.accept(&entry.written, compiled);
        }
        templates.push(DefinedTemplate {
            name,
            entry,
            // Placeholder, so that topics that refer to the template cause no further errors.
            source: Arc::new(source.unwrap_or_else(|| ItemSource::simple(name))),
            is_used: false,
        });
    }
    let mut topics = Vec::new();
    let mut all_known = true;
    let uses_patterns = parameters.parsed(TOPIC_PATTERNS).unwrap_or(false);
    for (topic, entry) in parameters.matching(MAP, MAP_SUFFIX) {
        if !entry.is_resolved {
            all_known = false;
            continue;
        }
        let sources = sources(entry, &mut templates, findings);
        let sources = findings.accept(&entry.written, sources);
        let pattern = match uses_patterns {
            true => findings.accept(&entry.written, topic_pattern(topic, entry)),
            false => None,
        };
        let name = topic.into();
        topics.extend(sources.map(|sources| TopicSources {
            name,
            sources,
            pattern,
        }));
    }
    for template in templates.iter().filter(|t| all_known && !t.is_used) {
        let name = template.name;
        let text = format!("item template [{name}] is used by no parameter [map.*.to]");
        findings.warn(template.entry.written.line, text);
    }
    let mut fields = Vec::new();
    for (name, entry) in parameters
        .matching(FIELD, "")
        .filter(|(_, e)| e.is_resolved)
    {
        let text = &entry.written.value;
        let field = Expression::parse_wrapped(text);
        let field = field.and_then(|expression| named(name, &expression, &mut for_fields));
        let field = field.map_err(|reason| field_problem(name, text, &reason));
        fields.extend(findings.accept(&entry.written, field));
    }
    let wildcard = wildcard(parameters, &mut for_fields, findings);
    if command_mode == CommandMode::Auto {
        set_command_field(&mut fields, parts.value.is_null_if_empty());
    }
    let options = FieldOptions {
        skip_failed: parameters
            .parsed("fields.skip.failed.mapping.enable")
            .unwrap_or(false),
        map_non_scalar: parameters
            .parsed("fields.map.non.scalar.values.enable")
            .unwrap_or(false),
    };
    let paths = (for_items.into_paths(), for_fields.into_paths());
    Mapping::new(
        topics,
        fields,
        options,
        command_mode,
        paths,
        wildcard,
        parts.clone(),
    )
}

/// Compiles a topic as a pattern, with `map.regex.enable`.
fn topic_pattern(topic: &str, entry: &ParameterEntry) -> Result<Regex, Problem> {
    java_regex::compile(topic).map_err(|reason| {
        Problem(format!(
            "specify a valid regular expression for parameter [{}]: {reason}",
            entry.written.name
        ))
    })
}

fn field_problem(name: &str, text: &str, reason: &ExpressionError) -> Problem {
    Problem(format!(
        "got the following error while evaluating the field [{name}] containing the expression \
         [{text}]: {reason}"
    ))
}

/// Compiles `field.*`.
fn wildcard(
    parameters: &ConnectionParameters,
    compiler: &mut Compiler,
    findings: &mut Findings<'_>,
) -> Option<(Arc<str>, MembersSelector)> {
    let written = parameters.resolved(FIELD_WILDCARD)?;
    let expression = Expression::parse_wrapped(&written.value);
    let compiled = expression.and_then(|expression| {
        let selector = compiler.compile_members(&expression)?;
        Ok((Arc::from(expression.text()), selector))
    });
    let compiled = compiled.map_err(|reason| field_problem(WILDCARD, &written.value, &reason));
    let compiled = findings.accept(written, compiled);
    if let Some((expression, MembersSelector::Scalar)) = &compiled {
        let text = format!(
            "[{FIELD_WILDCARD}] yields no fields: [{expression}] is a scalar; use a JSON or KVP \
             evaluator, or remove it"
        );
        findings.warn(written.line, text);
    }
    compiled
}

/// Returns the evaluators of keys and values; registered schemas come from `table`.
pub(super) fn parts(
    parameters: &ConnectionParameters,
    table: &Arc<SchemaTable>,
) -> KeyAndValue<PartConfig> {
    KeyAndValue {
        key: part_config(RecordPart::Key, parameters, table),
        value: part_config(RecordPart::Value, parameters, table),
    }
}

fn part_config(
    part: RecordPart,
    parameters: &ConnectionParameters,
    table: &Arc<SchemaTable>,
) -> PartConfig {
    let get = |name: &str| parameters.get(&format!("record.{part}.evaluator.{name}"));
    let char = |name: &str, default| get(name).and_then(|c| c.chars().next()).unwrap_or(default);
    let separators = Separators::default();
    // An unknown type is an error already. JSON replaces it here, so that paths into the payload
    // cause no further errors.
    let evaluator = get("type").map_or_else(Evaluator::default, |name| {
        name.parse().unwrap_or(Evaluator::Json)
    });
    PartConfig {
        evaluator,
        format: Arc::new(schemas::format(part, evaluator, parameters, table)),
        separators: Separators {
            pairs: char("kvp.pairs.separator", separators.pairs),
            key_value: char("kvp.key-value.separator", separators.key_value),
        },
    }
}

/// Replaces or adds the field `command` in auto command mode, in which the record determines it.
fn set_command_field(fields: &mut Vec<NamedSelector>, is_null_if_empty: bool) {
    let selector = Selector::Command { is_null_if_empty };
    match fields
        .iter_mut()
        .find(|field| *field.name == *COMMAND_FIELD)
    {
        Some(field) => field.selector = selector,
        None => fields.push(NamedSelector {
            name: COMMAND_FIELD.into(),
            expression: "presence of the record value".into(),
            selector,
        }),
    }
}

fn template(
    name: &str,
    entry: &ParameterEntry,
    compiler: &mut Compiler,
    findings: &mut Findings<'_>,
) -> Result<ItemSource, Problem> {
    let text = entry.written.value.as_str();
    if is_prefix(text) && !findings.is_strict() {
        let warning = format!(
            "item template [{name}] = \"{text}\" has no parameters, which connector 1.5 rejects; \
             it is read as the simple item \"{text}\""
        );
        findings.warn(entry.written.line, warning);
        return Ok(ItemSource::simple(text));
    }
    let compiled = ItemTemplate::parse(text).and_then(|t| compile_template(name, &t, compiler));
    compiled.map_err(|reason| {
        Problem(format!(
            "got the following error while evaluating the template [{name}] containing the \
             expression [{text}]: {reason}"
        ))
    })
}

fn compile_template(
    name: &str,
    template: &ItemTemplate,
    compiler: &mut Compiler,
) -> Result<ItemSource, TemplateError> {
    let mut parameters = Vec::with_capacity(template.parameters().len());
    for (parameter, expression) in template.parameters() {
        let text_before = match parameters.is_empty() {
            true => format!("{}-[{parameter}=", template.prefix()),
            false => format!(",{parameter}="),
        };
        parameters.push(TemplateParameter {
            text_before: text_before.into(),
            value: named(parameter, expression, compiler)?,
        });
    }
    Ok(ItemSource {
        name: name.into(),
        prefix: template.prefix().into(),
        parameters,
    })
}

/// Returns the items and templates that a topic is mapped to.
fn sources(
    entry: &ParameterEntry,
    templates: &mut [DefinedTemplate<'_>],
    findings: &mut Findings<'_>,
) -> Result<Vec<Arc<ItemSource>>, Problem> {
    let Some(elements) = text_list(&entry.written.value) else {
        return Err(entry.bad_value("a list of non-empty strings, separated by commas"));
    };
    let parameter = &entry.written.name;
    let mut sources = Vec::with_capacity(elements.len());
    for element in elements {
        let Some(reference) = element.strip_prefix(TEMPLATE_REFERENCE) else {
            check_simple_item(entry, element, findings);
            sources.push(Arc::new(ItemSource::simple(element)));
            continue;
        };
        if reference.is_empty() {
            return Err(Problem(format!(
                "item template reference must be a non-empty string in parameter [{parameter}]; \
                 write item-template.NAME"
            )));
        }
        let Some(defined) = templates.iter_mut().find(|t| t.name == reference) else {
            return Err(Problem(format!(
                "no item template [{reference}] found, which parameter [{parameter}] refers to; \
                 define [item-template.{reference}]"
            )));
        };
        defined.is_used = true;
        sources.push(Arc::clone(&defined.source));
    }
    Ok(sources)
}

/// Warns if no client can name a simple item.
fn check_simple_item(entry: &ParameterEntry, name: &str, findings: &mut Findings<'_>) {
    let nameable = CanonicalItem::parse(name)
        .is_ok_and(|item| item.as_str() == name && item.parameters().len() == 0);
    if !nameable {
        let text = format!(
            "no client can subscribe to the simple item \"{name}\" of parameter [{}]: only \
             letters, digits, '_' and '-' are allowed in an item name",
            entry.written.name
        );
        findings.warn(entry.written.line, text);
    }
}

fn named(
    name: &str,
    expression: &Expression,
    compiler: &mut Compiler,
) -> Result<NamedSelector, ExpressionError> {
    Ok(NamedSelector {
        name: name.into(),
        expression: expression.text().into(),
        selector: compiler.compile(expression)?,
    })
}
