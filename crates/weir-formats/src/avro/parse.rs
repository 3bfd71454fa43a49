//! Parses schemas in their JSON form.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::error::{AvroSchemaError, SchemaFault};
use super::schema::{AvroSchema, AvroType, Field, Size, Span, TypeId, TypeKind};

/// Maximum length of a schema. It bounds the number of types.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Types without attributes, at the start of every schema's table.
const PRIMITIVES: [(&str, TypeKind, Size); 8] = [
    ("null", TypeKind::Null, Size::opaque(0)),
    ("boolean", TypeKind::Boolean, BOOLEAN),
    ("int", TypeKind::Int, Size::varying(1)),
    ("long", TypeKind::Long, Size::varying(1)),
    ("float", TypeKind::Float, Size::opaque(4)),
    ("double", TypeKind::Double, Size::opaque(8)),
    ("bytes", TypeKind::Bytes, Size::varying(1)),
    ("string", TypeKind::String, Size::varying(1)),
];

const BOOLEAN: Size = Size {
    min: 1,
    is_exact: true,
    is_opaque: false,
};

type Attributes = Map<String, Value>;

impl AvroSchema {
    /// Parses a schema. `references` are the texts of schemas that it uses by name, each after
    /// those that it uses itself; a repeated text counts once.
    pub fn parse(text: &str, references: &[String]) -> Result<Self, AvroSchemaError> {
        let mut parser = Parser::new();
        for (i, reference) in references.iter().enumerate() {
            if !references[..i].contains(reference) {
                parser.add(reference)?;
            }
        }
        let root = parser.add(text)?;
        let mut schema = parser.schema;
        schema.root = root;
        Ok(schema)
    }
}

/// Parser of a schema and the schemas that it refers to.
struct Parser {
    schema: AvroSchema,
    /// Types by full name.
    names: HashMap<String, TypeId>,
    /// Enclosing records and fields, for errors.
    place: Vec<String>,
}

impl Parser {
    fn new() -> Self {
        let types = PRIMITIVES.map(|(_, kind, size)| AvroType { kind, size });
        Self {
            schema: AvroSchema {
                types: types.to_vec(),
                root: 0,
                fields: Vec::new(),
                branches: Vec::new(),
                symbols: Vec::new(),
            },
            names: HashMap::new(),
            place: Vec::new(),
        }
    }

    /// Parses a text, which may use the names of earlier texts.
    fn add(&mut self, text: &str) -> Result<TypeId, AvroSchemaError> {
        let outcome = self.text(text);
        outcome.map_err(|fault| AvroSchemaError {
            place: self.place.concat(),
            fault,
        })
    }

    fn text(&mut self, text: &str) -> Result<TypeId, SchemaFault> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(SchemaFault::Long(text.len(), TEXT_BYTES_MAX));
        }
        // The JSON parser limits the nesting, and so the recursion below.
        let json = serde_json::from_str(text).map_err(|e| SchemaFault::Json(e.to_string()))?;
        self.schema(&json, "")
    }

    /// Parses a type inside a namespace.
    fn schema(&mut self, json: &Value, namespace: &str) -> Result<TypeId, SchemaFault> {
        match json {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => self.union(branches, namespace),
            Value::Object(attributes) => self.object(attributes, namespace),
            Value::Null => Err(SchemaFault::NotType("null")),
            Value::Bool(_) => Err(SchemaFault::NotType("a boolean")),
            Value::Number(_) => Err(SchemaFault::NotType("a number")),
        }
    }

    fn object(&mut self, object: &Attributes, namespace: &str) -> Result<TypeId, SchemaFault> {
        let missing = || SchemaFault::Attribute("type", "object".to_owned());
        let name = match object.get("type").ok_or_else(missing)? {
            Value::String(name) => name,
            nested => return self.schema(nested, namespace),
        };
        let attribute = |key: &'static str| {
            let missing = || SchemaFault::Attribute(key, name.clone());
            object.get(key).ok_or_else(missing)
        };
        match name.as_str() {
            "record" | "error" => self.record(name, object, namespace),
            "enum" => self.symbols(object, namespace),
            "fixed" => {
                let malformed = || SchemaFault::Attribute("size", name.clone());
                let size = attribute("size")?.as_u64();
                let size = size.and_then(|size| i32::try_from(size).ok());
                let size = size.ok_or_else(malformed)?.unsigned_abs();
                let id = self.push(TypeKind::Fixed(size), Size::opaque(size));
                self.define(object, name, namespace, id)?;
                Ok(id)
            }
            "array" => {
                let item = self.schema(attribute("items")?, namespace)?;
                Ok(self.push(TypeKind::Array(item), Size::varying(1)))
            }
            "map" => {
                let value = self.schema(attribute("values")?, namespace)?;
                Ok(self.push(TypeKind::Map(value), Size::varying(1)))
            }
            name => self.named(name, namespace),
        }
    }

    /// Returns a primitive type, or a defined one: in the namespace, else outside any.
    fn named(&self, name: &str, namespace: &str) -> Result<TypeId, SchemaFault> {
        if let Some(id) = PRIMITIVES.iter().position(|(own, ..)| *own == name) {
            return Ok(id as TypeId);
        }
        let simple = name.rsplit('.').next().unwrap_or(name);
        let found = self.names.get(&full_name(name, namespace));
        let found = found.or_else(|| self.names.get(simple));
        found
            .copied()
            .ok_or_else(|| SchemaFault::UnknownType(name.to_owned()))
    }

    /// Gives a type the name in its attributes. Returns the full name.
    fn define(
        &mut self,
        object: &Attributes,
        kind: &str,
        namespace: &str,
        id: TypeId,
    ) -> Result<String, SchemaFault> {
        let name = object.get("name").and_then(Value::as_str);
        let name = name.filter(|name| !name.is_empty() && !name.ends_with('.'));
        let name = name.ok_or_else(|| SchemaFault::Attribute("name", kind.to_owned()))?;
        let namespace = match object.get("namespace") {
            Some(Value::String(own)) => own,
            Some(Value::Null) | None => namespace,
            Some(_) => return Err(SchemaFault::Attribute("namespace", kind.to_owned())),
        };
        let full = full_name(name, namespace);
        if self.names.insert(full.clone(), id).is_some() {
            return Err(SchemaFault::Redefined(full));
        }
        Ok(full)
    }

    fn record(
        &mut self,
        kind: &str,
        object: &Attributes,
        namespace: &str,
    ) -> Result<TypeId, SchemaFault> {
        // Until its fields are known, a record that contains itself has no size.
        let unknown = TypeKind::Record(Span { start: 0, len: 0 });
        let id = self.push(unknown, Size::varying(0));
        let name = self.define(object, kind, namespace, id)?;
        let place = self.place.len();
        self.place.push(format!(", record \"{name}\""));
        let malformed = || SchemaFault::Attribute("fields", kind.to_owned());
        let fields = object.get("fields").and_then(Value::as_array);
        let inner = name.rsplit_once('.').map_or("", |(inner, _)| inner);
        let fields = self.fields(fields.ok_or_else(malformed)?, inner)?;
        self.place.truncate(place);
        let sizes = fields.iter().map(|field| self.schema.get(field.id).size);
        let size = sizes.fold(Size::opaque(0), Size::and);
        let span = append(&mut self.schema.fields, fields);
        self.schema.types[id as usize] = AvroType {
            kind: TypeKind::Record(span),
            size,
        };
        Ok(id)
    }

    fn fields(&mut self, fields: &[Value], namespace: &str) -> Result<Vec<Field>, SchemaFault> {
        let mut names = HashSet::new();
        let mut parsed = Vec::with_capacity(fields.len());
        for field in fields {
            let malformed = |key| SchemaFault::Attribute(key, "field".to_owned());
            let name = field.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| malformed("name"))?;
            if !names.insert(name) {
                return Err(SchemaFault::Repeated(name.to_owned()));
            }
            let place = self.place.len();
            self.place.push(format!(", field \"{name}\""));
            let json = field.get("type").ok_or_else(|| malformed("type"))?;
            let id = self.schema(json, namespace)?;
            self.place.truncate(place);
            parsed.push(Field {
                name: name.into(),
                id,
            });
        }
        Ok(parsed)
    }

    fn symbols(&mut self, object: &Attributes, namespace: &str) -> Result<TypeId, SchemaFault> {
        let malformed = || SchemaFault::Attribute("symbols", "enum".to_owned());
        let symbols = object.get("symbols").and_then(Value::as_array);
        let mut names = HashSet::new();
        let mut parsed: Vec<Box<str>> = Vec::new();
        for symbol in symbols.ok_or_else(malformed)? {
            let symbol = symbol.as_str().ok_or_else(malformed)?;
            if !names.insert(symbol) {
                return Err(SchemaFault::Repeated(symbol.to_owned()));
            }
            parsed.push(symbol.into());
        }
        let span = append(&mut self.schema.symbols, parsed);
        let id = self.push(TypeKind::Enum(span), Size::varying(1));
        self.define(object, "enum", namespace, id)?;
        Ok(id)
    }

    fn union(&mut self, branches: &[Value], namespace: &str) -> Result<TypeId, SchemaFault> {
        let mut parsed = Vec::with_capacity(branches.len());
        let mut seen = HashSet::new();
        for branch in branches {
            let id = self.schema(branch, namespace)?;
            // Types without a name must differ in their kind.
            let key = match self.schema.kind(id) {
                TypeKind::Union(_) => return Err(SchemaFault::NestedUnion),
                TypeKind::Array(_) => (1, 0),
                TypeKind::Map(_) => (2, 0),
                _ => (0, id),
            };
            if !seen.insert(key) {
                let name = branch.as_str().or_else(|| branch.get("type")?.as_str());
                let name = name.unwrap_or_default().to_owned();
                return Err(SchemaFault::RepeatedBranch(name));
            }
            parsed.push(id);
        }
        let sizes = parsed.iter().map(|id| self.schema.get(*id).size.min);
        let min = sizes.min().unwrap_or(0).saturating_add(1);
        let span = append(&mut self.schema.branches, parsed);
        Ok(self.push(TypeKind::Union(span), Size::varying(min)))
    }

    fn push(&mut self, kind: TypeKind, size: Size) -> TypeId {
        // The length of the texts limits the number of types to less than 4 billion.
        let id = self.schema.types.len() as TypeId;
        self.schema.types.push(AvroType { kind, size });
        id
    }
}

/// Appends `more` to a table. The length of the texts limits tables to less than 4 billion entries.
fn append<T>(table: &mut Vec<T>, more: Vec<T>) -> Span {
    let span = Span {
        start: table.len() as u32,
        len: more.len() as u32,
    };
    table.extend(more);
    span
}

/// Returns a name with its namespace. A dot in the name itself means that it has one.
fn full_name(name: &str, namespace: &str) -> String {
    match name.strip_prefix('.') {
        Some(rest) if !rest.contains('.') => rest.to_owned(),
        _ if name.contains('.') || namespace.is_empty() => name.to_owned(),
        _ => format!("{namespace}.{name}"),
    }
}
