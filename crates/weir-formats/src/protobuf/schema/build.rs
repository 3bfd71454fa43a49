//! Resolves names and checks definitions: from declared files to compiled types.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::error::ProtobufSchemaError as SchemaError;
use super::default::default_text;
use super::raw::{Label, Presence, RawEnum, RawField, RawFile, RawKind, RawMessage};
use super::types::{EnumId, EnumType, Field, FieldKind, MessageId, MessageType, Types};

/// Highest field number.
const FIELD_NUMBER_MAX: i64 = (1 << 29) - 1;

/// A named type.
#[derive(Debug, Clone, Copy)]
enum TypeId {
    Message(MessageId),
    Enum(EnumId),
}

/// Declared messages with their full names, by id.
#[derive(Default)]
struct Names<'a> {
    types: HashMap<Arc<str>, TypeId>,
    messages: Vec<Declared<'a>>,
    enums: Vec<(Arc<str>, &'a RawEnum)>,
}

struct Declared<'a> {
    name: Arc<str>,
    raw: &'a RawMessage,
    /// Nested messages, including map entries and groups.
    nested: Vec<MessageId>,
}

/// Compiles files; the last one is the main file.
pub(super) fn build(files: &[RawFile]) -> Result<Types, SchemaError> {
    let mut names = Names::default();
    let mut types = Types::default();
    for (index, file) in files.iter().enumerate() {
        let mut top = Vec::new();
        for message in &file.messages {
            top.push(names.add_message(&file.package, message)?);
        }
        for raw in &file.enums {
            names.add_enum(&file.package, raw)?;
        }
        if index + 1 == files.len() {
            types.top = top;
        }
    }
    for (name, raw) in &names.enums {
        types.enums.push(enum_type(name, raw)?);
    }
    for declared in &names.messages {
        types.messages.push(names.message(declared, &types.enums)?);
    }
    mark_required(&mut types);
    index_names(files, &names, &mut types);
    Ok(types)
}

impl<'a> Names<'a> {
    fn add(&mut self, scope: &str, name: &str, id: TypeId) -> Result<Arc<str>, SchemaError> {
        let full: Arc<str> = join(scope, name).into();
        if name.is_empty() {
            return Err(SchemaError::definition(scope, "a type without a name"));
        }
        if self.types.insert(Arc::clone(&full), id).is_some() {
            return Err(SchemaError::definition(&full, "defined twice"));
        }
        Ok(full)
    }

    /// Adds a message and the types nested in it. The readers of files limit the nesting.
    fn add_message(&mut self, scope: &str, raw: &'a RawMessage) -> Result<MessageId, SchemaError> {
        // A schema has less than 4 GiB, and so fewer messages.
        let id = self.messages.len() as MessageId;
        let name = self.add(scope, &raw.name, TypeId::Message(id))?;
        self.messages.push(Declared {
            name: Arc::clone(&name),
            raw,
            nested: Vec::new(),
        });
        for inner in &raw.messages {
            let nested = self.add_message(&name, inner)?;
            self.messages[id as usize].nested.push(nested);
        }
        for inner in &raw.enums {
            self.add_enum(&name, inner)?;
        }
        Ok(id)
    }

    fn add_enum(&mut self, scope: &str, raw: &'a RawEnum) -> Result<(), SchemaError> {
        let id = self.enums.len() as EnumId;
        let name = self.add(scope, &raw.name, TypeId::Enum(id))?;
        self.enums.push((name, raw));
        Ok(())
    }

    /// Finds a type by its name as written in `scope`, from the innermost scope outwards.
    fn resolve(&self, scope: &str, name: &str) -> Option<TypeId> {
        if let Some(full) = name.strip_prefix('.') {
            return self.types.get(full).copied();
        }
        let mut scope = scope;
        loop {
            if let Some(id) = self.types.get(join(scope, name).as_str()) {
                return Some(*id);
            }
            if scope.is_empty() {
                return None;
            }
            scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
        }
    }

    fn message(
        &self,
        declared: &Declared<'_>,
        enums: &[EnumType],
    ) -> Result<MessageType, SchemaError> {
        let mut fields = Vec::with_capacity(declared.raw.fields.len());
        let mut names = HashSet::new();
        let mut groups = HashSet::new();
        for raw in &declared.raw.fields {
            let field = self.field(declared, raw, enums)?;
            if !names.insert(Arc::clone(&field.name)) {
                let full = join(&declared.name, &field.name);
                return Err(SchemaError::definition(&full, "field defined twice"));
            }
            if let FieldKind::Group(id) = field.kind {
                groups.insert(id);
            }
            fields.push(field);
        }
        let mut order: Vec<u32> = (0..fields.len() as u32).collect();
        order.sort_unstable_by_key(|index| fields[*index as usize].number);
        // The position of each declared field in the order of the numbers.
        let mut declared_order = vec![0; fields.len()];
        for (position, index) in order.iter().enumerate() {
            declared_order[*index as usize] = position as u32;
        }
        fields.sort_unstable_by_key(|field| field.number);
        if let Some(pair) = fields.windows(2).find(|p| p[0].number == p[1].number) {
            let problem = format!("number {} is used twice", pair[1].number);
            let full = join(&declared.name, &pair[1].name);
            return Err(SchemaError::definition(&full, problem));
        }
        let is_listed =
            |id: &MessageId| !self.messages[*id as usize].raw.is_map_entry && !groups.contains(id);
        let has_required = fields.iter().any(|field| field.is_required);
        Ok(MessageType {
            name: Arc::clone(&declared.name),
            fields: fields.into(),
            declared: declared_order.into(),
            nested: declared.nested.iter().copied().filter(is_listed).collect(),
            oneof_count: declared.raw.oneof_count,
            has_required,
        })
    }

    fn field(
        &self,
        message: &Declared<'_>,
        raw: &RawField,
        enums: &[EnumType],
    ) -> Result<Field, SchemaError> {
        let full = || join(&message.name, &raw.name);
        let number = u32::try_from(raw.number).ok();
        let number = number.filter(|n| (1..=FIELD_NUMBER_MAX).contains(&i64::from(*n)));
        let number = number.ok_or_else(|| {
            SchemaError::definition(&full(), format!("field number {} is invalid", raw.number))
        })?;
        if raw.name.is_empty() {
            return Err(SchemaError::definition(&full(), "a field without a name"));
        }
        if raw.oneof.is_some_and(|o| o >= message.raw.oneof_count) {
            return Err(SchemaError::definition(&full(), "its oneof does not exist"));
        }
        let is_repeated = raw.label == Label::Repeated;
        let kind = self.kind(message, raw)?;
        let default = match is_repeated {
            true => Box::default(),
            false => default_text(kind, raw.default.as_ref(), enums)
                .map_err(|problem| SchemaError::definition(&full(), problem.to_string()))?,
        };
        let is_message = matches!(kind, FieldKind::Message(_) | FieldKind::Group(_));
        Ok(Field {
            number,
            name: raw.name.as_str().into(),
            kind,
            is_repeated,
            is_required: raw.label == Label::Required
                || raw.label == Label::Default && raw.features.presence == Presence::Required,
            has_presence: is_message
                || raw.oneof.is_some()
                || raw.label != Label::Default
                || raw.features.presence != Presence::Implicit,
            checks_encoding: raw.features.checks_encoding,
            oneof: raw.oneof,
            default,
        })
    }

    fn kind(&self, message: &Declared<'_>, raw: &RawField) -> Result<FieldKind, SchemaError> {
        let full = || join(&message.name, &raw.name);
        let name = match &raw.kind {
            RawKind::Scalar(name) => return Ok(scalar_kind(name)),
            RawKind::Named(name) | RawKind::Group(name) => name,
        };
        let is_group = matches!(raw.kind, RawKind::Group(_)) || raw.features.is_delimited;
        match self.resolve(&message.name, name) {
            Some(TypeId::Enum(id)) => Ok(FieldKind::Enum(id)),
            Some(TypeId::Message(id)) => {
                let target = &self.messages[id as usize];
                if target.raw.is_map_entry {
                    if raw.label != Label::Repeated || !is_entry(target.raw) {
                        return Err(SchemaError::definition(&full(), "malformed map type"));
                    }
                    return Ok(FieldKind::Map(id));
                }
                Ok(match is_group {
                    true => FieldKind::Group(id),
                    false => FieldKind::Message(id),
                })
            }
            None => Err(SchemaError::definition(
                &full(),
                format!("type \"{name}\" is not defined"),
            )),
        }
    }
}

/// Returns `true` if a map entry has the key as field 1 and the value as field 2, both single.
fn is_entry(raw: &RawMessage) -> bool {
    let is_key = |kind: &RawKind| match kind {
        RawKind::Scalar(name) => !matches!(*name, "double" | "float" | "bytes"),
        RawKind::Named(_) | RawKind::Group(_) => false,
    };
    let [key, value] = raw.fields.as_slice() else {
        return false;
    };
    let single = |field: &RawField| field.label != Label::Repeated && field.oneof.is_none();
    (key.number, value.number) == (1, 2) && is_key(&key.kind) && single(key) && single(value)
}

fn scalar_kind(name: &str) -> FieldKind {
    match name {
        "double" => FieldKind::Double,
        "float" => FieldKind::Float,
        "int32" => FieldKind::Int32,
        "int64" => FieldKind::Int64,
        "uint32" => FieldKind::Uint32,
        "uint64" => FieldKind::Uint64,
        "sint32" => FieldKind::Sint32,
        "sint64" => FieldKind::Sint64,
        "fixed32" => FieldKind::Fixed32,
        "fixed64" => FieldKind::Fixed64,
        "sfixed32" => FieldKind::Sfixed32,
        "sfixed64" => FieldKind::Sfixed64,
        "bool" => FieldKind::Bool,
        "string" => FieldKind::String,
        _ => FieldKind::Bytes,
    }
}

fn enum_type(name: &Arc<str>, raw: &RawEnum) -> Result<EnumType, SchemaError> {
    let Some((first, _)) = raw.values.first() else {
        return Err(SchemaError::definition(name, "an enum without values"));
    };
    let mut values = Vec::with_capacity(raw.values.len());
    for (value, number) in &raw.values {
        let number = i32::try_from(*number).map_err(|_| {
            SchemaError::definition(&join(name, value), format!("number {number} is invalid"))
        })?;
        values.push((number, value.as_str().into()));
    }
    // The sort is stable, so the first of several names with the same number is kept.
    values.sort_by_key(|(number, _)| *number);
    let mut aliases = Vec::new();
    values.dedup_by(|later: &mut (i32, Box<str>), kept| {
        let is_alias = later.0 == kept.0;
        if is_alias {
            aliases.push(std::mem::take(&mut later.1));
        }
        is_alias
    });
    let short_name = name.rsplit_once('.').map_or(&**name, |(_, short)| short);
    Ok(EnumType {
        short_name: short_name.into(),
        values: values.into(),
        aliases: aliases.into(),
        first: first.as_str().into(),
        is_closed: raw.is_closed,
    })
}

/// Marks the messages that contain required fields at any depth.
fn mark_required(types: &mut Types) {
    let mut parents: Vec<Vec<MessageId>> = vec![Vec::new(); types.messages.len()];
    let mut next = Vec::new();
    for (id, message) in types.messages.iter().enumerate() {
        for field in &message.fields {
            if let FieldKind::Message(child) | FieldKind::Group(child) | FieldKind::Map(child) =
                field.kind
            {
                parents[child as usize].push(id as MessageId);
            }
        }
        if message.has_required {
            next.push(id as MessageId);
        }
    }
    while let Some(id) = next.pop() {
        for parent in std::mem::take(&mut parents[id as usize]) {
            let message = &mut types.messages[parent as usize];
            if !message.has_required {
                message.has_required = true;
                next.push(parent);
            }
        }
    }
}

fn index_names(files: &[RawFile], names: &Names<'_>, types: &mut Types) {
    for (id, declared) in names.messages.iter().enumerate() {
        if !declared.raw.is_map_entry {
            let id = id as MessageId;
            types.by_name.insert(Arc::clone(&declared.name), id);
        }
    }
    for file in files {
        let mut next: Vec<(String, &RawMessage)> =
            file.messages.iter().map(|m| (m.name.clone(), m)).collect();
        while let Some((short, raw)) = next.pop() {
            let inner = raw.messages.iter();
            next.extend(inner.map(|m| (join(&short, &m.name), m)));
            let id = types.by_name.get(join(&file.package, &short).as_str());
            let Some(id) = id.copied() else { continue };
            let entry = types.by_short_name.entry(short.into());
            entry.and_modify(|old| *old = None).or_insert(Some(id));
        }
    }
}

fn join(scope: &str, name: &str) -> String {
    match scope.is_empty() {
        true => name.to_owned(),
        false => format!("{scope}.{name}"),
    }
}
