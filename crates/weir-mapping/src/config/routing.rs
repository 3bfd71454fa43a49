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
use crate::payload::Plans;
use crate::selector::{Compiler, Selector};
use crate::template::ItemTemplate;

const TEMPLATE_REFERENCE: &str = "item-template.";

/// A template of the file and whether a topic uses it.
struct Defined<'a> {
    name: &'a str,
    entry: &'a ParameterEntry,
    source: ItemSource,
    used: bool,
}

pub(super) fn compile(
    parameters: &ConnectionParameters<'_>,
    mut for_items: Compiler,
    mut for_fields: Compiler,
    options: FieldOptions,
    command_mode: CommandMode,
    notes: &mut Vec<Note>,
    refusals: &mut Vec<ParameterError>,
) -> Mapping {
    let mut refuse = |entry: &ParameterEntry, error| {
        let name = entry.written.name.clone();
        refusals.push(ParameterError { name, error });
    };
    let mut templates = Vec::new();
    for (name, entry) in parameters.matching(ITEM_TEMPLATE, "") {
        // Stands in, so that topics that refer to it are not blamed.
        let mut source = ItemSource::Simple(name.into());
        if entry.is_resolved {
            match template(parameters, name, entry, &mut for_items, notes) {
                Ok(compiled) => source = compiled,
                Err(error) => refuse(entry, error),
            }
        }
        templates.push(Defined {
            name,
            entry,
            source,
            used: false,
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
            Err(error) => refuse(entry, error),
        }
    }
    let is_unused = |template: &&Defined<'_>| all_known && !template.used;
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
            Err(error) => refuse(entry, error),
        }
    }
    if command_mode == CommandMode::Auto {
        take_over_command(&mut fields, for_fields.settings.value.evaluator);
    }
    let plans = |compiler: Compiler| Plans {
        key: Arc::new(compiler.plans.key),
        value: Arc::new(compiler.plans.value),
    };
    let (for_items, for_fields) = (plans(for_items), plans(for_fields));
    Mapping::new(topics, fields, options, command_mode, for_items, for_fields)
}

/// In auto command mode the field `command` says what a record is, whatever is mapped to it.
fn take_over_command(fields: &mut Vec<CompiledField>, value: Evaluator) {
    let selector = Selector::Command(value);
    match fields
        .iter_mut()
        .find(|field| *field.name == *COMMAND_FIELD)
    {
        Some(field) => field.selector = selector,
        None => fields.push(CompiledField {
            name: COMMAND_FIELD.into(),
            expression: "the record's value: there or not".into(),
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
            "item template [{name}] = \"{text}\" has no parameters, which connector 1.5 refuses; \
             it is taken as the simple item \"{text}\""
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
        let lead = match parameters.is_empty() {
            true => format!("{}-[{parameter}=", template.prefix()),
            false => format!(",{parameter}="),
        };
        parameters.push(TemplateParameter {
            name: parameter.into(),
            expression: expression.text().into(),
            selector: compiler.compile(expression)?,
            lead: lead.into(),
        });
    }
    Ok(Template {
        name: name.into(),
        prefix: template.prefix().into(),
        parameters,
    })
}

/// The items and templates a topic is mapped to.
fn sources(
    parameters: &ConnectionParameters<'_>,
    entry: &ParameterEntry,
    templates: &mut [Defined<'_>],
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
        defined.used = true;
        sources.push(defined.source.clone());
    }
    Ok(sources)
}

/// Warns of a simple item that no client can name.
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
            "no client can subscribe the simple item \"{name}\" of parameter [{}]: only letters, \
             digits, '_' and '-' can be written in an item name",
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
