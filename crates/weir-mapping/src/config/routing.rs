//! Compiles templates, topic mappings and fields of a connection into a [`Mapping`].

use std::sync::Arc;

use super::note::{Note, Severity};
use super::parameter_table::{FIELD, ITEM_TEMPLATE, MAP, MAP_SUFFIX};
use super::parameters::{ConnectionParameters, ParameterEntry, ParameterError};
use super::types::text_list;
use crate::command::{COMMAND_FIELD, CommandMode};
use crate::error::{ConfigError, ExpressionError, Problem, TemplateError};
use crate::evaluator::Evaluator;
use crate::expression::Expression;
use crate::item_name::{CanonicalItem, is_prefix};
use crate::mapping::{
    CompiledField, FieldOptions, ItemSource, Mapping, Template, TemplateParameter,
};
use crate::payload::PathTrees;
use crate::selector::{Compiler, Selector};
use crate::template::ItemTemplate;

const TEMPLATE_REFERENCE: &str = "item-template.";

/// A configured template.
struct DefinedTemplate<'a> {
    name: &'a str,
    entry: &'a ParameterEntry,
    source: ItemSource,
    /// A topic refers to it.
    is_used: bool,
}

pub(super) fn compile(
    parameters: &ConnectionParameters<'_>,
    mut for_items: Compiler,
    mut for_fields: Compiler,
    options: FieldOptions,
    command_mode: CommandMode,
    notes: &mut Vec<Note>,
    errors: &mut Vec<ParameterError>,
) -> Mapping {
    let mut reject = |entry: &ParameterEntry, error| {
        let name = entry.written.name.clone();
        errors.push(ParameterError { name, error });
    };
    let mut templates = Vec::new();
    for (name, entry) in parameters.matching(ITEM_TEMPLATE, "") {
        // Placeholder, so that topics that refer to the template cause no further errors.
        let mut source = ItemSource::Simple(name.into());
        if entry.is_resolved {
            match template(parameters, name, entry, &mut for_items, notes) {
                Ok(compiled) => source = compiled,
                Err(error) => reject(entry, error),
            }
        }
        templates.push(DefinedTemplate {
            name,
            entry,
            source,
            is_used: false,
        });
    }
    let mut topics = Vec::new();
    let mut all_known = true;
    for (topic, entry) in parameters.matching(MAP, MAP_SUFFIX) {
        if !entry.is_resolved {
            all_known = false;
            continue;
        }
        match sources(parameters, entry, &mut templates, notes) {
            Ok(sources) => topics.push((topic.into(), sources)),
            Err(error) => reject(entry, error),
        }
    }
    let is_unused = |template: &&DefinedTemplate<'_>| all_known && !template.is_used;
    for template in templates.iter().filter(is_unused) {
        let text = format!(
            "item template [{}] is used by no parameter [map.*.to]",
            template.name
        );
        notes.push(parameters.note(Severity::Warning, template.entry, text));
    }
    let mut fields = Vec::new();
    for (name, entry) in parameters.matching(FIELD, "") {
        if !entry.is_resolved {
            continue;
        }
        match field(parameters, name, entry, &mut for_fields) {
            Ok(field) => fields.push(field),
            Err(error) => reject(entry, error),
        }
    }
    if command_mode == CommandMode::Auto {
        set_command_field(&mut fields, for_fields.part_configs.value.evaluator);
    }
    let paths = |compiler: Compiler| PathTrees {
        key: Arc::new(compiler.paths.key),
        value: Arc::new(compiler.paths.value),
    };
    let (for_items, for_fields) = (paths(for_items), paths(for_fields));
    Mapping::new(topics, fields, options, command_mode, for_items, for_fields)
}

/// Replaces or adds the field `command` in auto command mode, in which the record determines it.
fn set_command_field(fields: &mut Vec<CompiledField>, value: Evaluator) {
    let selector = Selector::Command(value);
    match fields
        .iter_mut()
        .find(|field| *field.name == *COMMAND_FIELD)
    {
        Some(field) => field.selector = selector,
        None => fields.push(CompiledField {
            name: COMMAND_FIELD.into(),
            expression: "presence of the record value".into(),
            selector,
        }),
    }
}

fn template(
    parameters: &ConnectionParameters<'_>,
    name: &str,
    entry: &ParameterEntry,
    compiler: &mut Compiler,
    notes: &mut Vec<Note>,
) -> Result<ItemSource, ConfigError> {
    let text = &entry.written.value;
    if is_prefix(text) && !parameters.is_strict() {
        let warning = format!(
            "item template [{name}] = \"{text}\" has no parameters, which connector 1.5 rejects; \
             it is read as the simple item \"{text}\""
        );
        notes.push(parameters.note(Severity::Warning, entry, warning));
        return Ok(ItemSource::Simple(text.as_str().into()));
    }
    let compiled = ItemTemplate::parse(text).and_then(|t| compile_template(name, &t, compiler));
    compiled
        .map(|template| ItemSource::Template(Arc::new(template)))
        .map_err(|reason| {
            let (template, expression) = (name.to_owned(), text.clone());
            parameters.error(
                entry,
                Problem::Template {
                    template,
                    expression,
                    reason,
                },
            )
        })
}

fn compile_template(
    name: &str,
    template: &ItemTemplate,
    compiler: &mut Compiler,
) -> Result<Template, TemplateError> {
    let mut parameters = Vec::with_capacity(template.parameters().len());
    for (parameter, expression) in template.parameters() {
        let text_before = match parameters.is_empty() {
            true => format!("{}-[{parameter}=", template.prefix()),
            false => format!(",{parameter}="),
        };
        parameters.push(TemplateParameter {
            name: parameter.into(),
            expression: expression.text().into(),
            selector: compiler.compile(expression)?,
            text_before: text_before.into(),
        });
    }
    Ok(Template {
        name: name.into(),
        prefix: template.prefix().into(),
        parameters,
    })
}

/// Returns the items and templates that a topic is mapped to.
fn sources(
    parameters: &ConnectionParameters<'_>,
    entry: &ParameterEntry,
    templates: &mut [DefinedTemplate<'_>],
    notes: &mut Vec<Note>,
) -> Result<Vec<ItemSource>, ConfigError> {
    let Some(elements) = text_list(&entry.written.value) else {
        let expected = "a list of non-empty strings, separated by commas".to_owned();
        return Err(parameters.bad_value(entry, expected));
    };
    let mut sources = Vec::with_capacity(elements.len());
    for element in elements {
        let Some(reference) = element.strip_prefix(TEMPLATE_REFERENCE) else {
            check_simple_item(parameters, entry, element, notes);
            sources.push(ItemSource::Simple(element.into()));
            continue;
        };
        let parameter = entry.written.name.clone();
        if reference.is_empty() {
            return Err(parameters.error(entry, Problem::EmptyTemplateReference { parameter }));
        }
        let Some(defined) = templates
            .iter_mut()
            .find(|template| template.name == reference)
        else {
            let template = reference.to_owned();
            return Err(parameters.error(
                entry,
                Problem::UnknownTemplate {
                    parameter,
                    template,
                },
            ));
        };
        defined.is_used = true;
        sources.push(defined.source.clone());
    }
    Ok(sources)
}

/// Warns if no client can name a simple item.
fn check_simple_item(
    parameters: &ConnectionParameters<'_>,
    entry: &ParameterEntry,
    name: &str,
    notes: &mut Vec<Note>,
) {
    let nameable = CanonicalItem::parse(name)
        .is_ok_and(|item| item.as_str() == name && item.parameters().len() == 0);
    if !nameable {
        let text = format!(
            "no client can subscribe to the simple item \"{name}\" of parameter [{}]: only \
             letters, digits, '_' and '-' are allowed in an item name",
            entry.written.name
        );
        notes.push(parameters.note(Severity::Warning, entry, text));
    }
}

fn field(
    parameters: &ConnectionParameters<'_>,
    name: &str,
    entry: &ParameterEntry,
    compiler: &mut Compiler,
) -> Result<CompiledField, ConfigError> {
    let text = &entry.written.value;
    compile_field(name, text, compiler).map_err(|reason| {
        let (field, expression) = (name.to_owned(), text.clone());
        parameters.error(
            entry,
            Problem::Field {
                field,
                expression,
                reason,
            },
        )
    })
}

fn compile_field(
    name: &str,
    text: &str,
    compiler: &mut Compiler,
) -> Result<CompiledField, ExpressionError> {
    let expression = Expression::parse_wrapped(text)?;
    let selector = compiler.compile(&expression)?;
    Ok(CompiledField {
        name: name.into(),
        expression: expression.text().into(),
        selector,
    })
}
