//! Parses `.proto` text: files, messages, enums and fields.
//!
//! Only what reading a message needs is kept. Services, extensions and options without effect are
//! skipped; the rules that `protoc` checks beyond that are those of the schema's author.

use super::default::integer;
use super::lexer::Token;
use super::raw::{
    Features, Label, NESTING_MAX, RawEnum, RawField, RawFile, RawKind, RawMessage, kind_of,
};
use super::tokens::{FieldOptions, Parsed, SyntaxError, Tokens, unexpected};

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<RawFile, SyntaxError> {
    let mut tokens = Tokens::new(text);
    let mut parser = Parser::default();
    match parser.file(&mut tokens) {
        Ok(()) => Ok(parser.file),
        Err(problem) => Err(SyntaxError {
            line: tokens.line(),
            problem: problem.to_string(),
        }),
    }
}

#[derive(Default)]
struct Parser {
    file: RawFile,
}

impl Parser {
    fn file(&mut self, tokens: &mut Tokens<'_>) -> Parsed<()> {
        tokens.advance()?;
        let mut features = Features::PROTO2;
        loop {
            let word = match tokens.take()? {
                Token::End => return Ok(()),
                Token::Mark(';') => continue,
                Token::Word(word) => word,
                other => return Err(unexpected("a definition", &other)),
            };
            let has_types = !self.file.messages.is_empty() || !self.file.enums.is_empty();
            match word {
                "syntax" | "edition" => {
                    tokens.mark('=')?;
                    features = edition(&tokens.text()?)?;
                    tokens.mark(';')?;
                }
                "package" => {
                    self.file.package = tokens.full_name()?;
                    tokens.mark(';')?;
                }
                "import" => {
                    if matches!(tokens.peek(), Token::Word("public" | "weak" | "option")) {
                        tokens.advance()?;
                    }
                    self.file.imports.push(tokens.text()?);
                    tokens.mark(';')?;
                }
                "option" => tokens.option(&mut features, has_types)?,
                "message" => self.file.messages.push(message(tokens, features, 0)?),
                "enum" => self.file.enums.push(enumeration(tokens, features)?),
                "service" | "extend" => tokens.skip_block()?,
                // Visibility of the definition that follows, in edition 2024.
                "export" | "local" => {}
                other => return Err(format!("expected a definition, found \"{other}\"").into()),
            }
        }
    }
}

fn edition(name: &str) -> Parsed<Features> {
    match name {
        "proto2" => Ok(Features::PROTO2),
        "proto3" => Ok(Features::PROTO3),
        "2023" | "2024" => Ok(Features::EDITION_2023),
        _ => Err(format!(
            "syntax \"{name}\" is not supported; write proto2, proto3, or edition 2023 or 2024"
        )
        .into()),
    }
}

/// Parses a message from its name on.
fn message(tokens: &mut Tokens<'_>, features: Features, depth: usize) -> Parsed<RawMessage> {
    let mut message = RawMessage {
        name: tokens.word()?.to_owned(),
        ..RawMessage::default()
    };
    tokens.mark('{')?;
    body(tokens, &mut message, features, depth)?;
    Ok(message)
}

/// Parses the content of a message up to its closing brace.
fn body(
    tokens: &mut Tokens<'_>,
    message: &mut RawMessage,
    outer: Features,
    depth: usize,
) -> Parsed<()> {
    if depth == NESTING_MAX {
        return Err(format!("more than {NESTING_MAX} levels of messages").into());
    }
    let mut features = outer;
    loop {
        let has_content = !message.fields.is_empty() || !message.messages.is_empty();
        match tokens.peek() {
            Token::Mark('}') => return tokens.advance(),
            Token::Mark(';') => tokens.advance()?,
            Token::Word("option") => {
                tokens.advance()?;
                tokens.option(&mut features, has_content)?;
            }
            Token::Word(word) if !tokens.is_type_name() => match *word {
                "message" => {
                    tokens.advance()?;
                    let inner = self::message(tokens, features, depth + 1)?;
                    message.messages.push(inner);
                }
                "enum" => {
                    tokens.advance()?;
                    message.enums.push(enumeration(tokens, features)?);
                }
                "extend" => tokens.skip_block()?,
                "export" | "local" => tokens.advance()?,
                "extensions" | "reserved" => tokens.skip_statement()?,
                "oneof" => oneof(tokens, message, features, depth)?,
                _ => field(tokens, message, features, None, depth)?,
            },
            _ => field(tokens, message, features, None, depth)?,
        }
    }
}

fn oneof(
    tokens: &mut Tokens<'_>,
    message: &mut RawMessage,
    mut features: Features,
    depth: usize,
) -> Parsed<()> {
    tokens.advance()?;
    tokens.word()?;
    tokens.mark('{')?;
    let oneof = message.oneof_count;
    message.oneof_count += 1;
    loop {
        match tokens.peek() {
            Token::Mark('}') => return tokens.advance(),
            Token::Mark(';') => tokens.advance()?,
            Token::Word("option") => {
                tokens.advance()?;
                tokens.option(&mut features, false)?;
            }
            _ => field(tokens, message, features, Some(oneof), depth)?,
        }
    }
}

/// Parses a field, with the message that a map or group declares.
fn field(
    tokens: &mut Tokens<'_>,
    message: &mut RawMessage,
    features: Features,
    oneof: Option<u32>,
    depth: usize,
) -> Parsed<()> {
    let label = label(tokens)?;
    if tokens.is_group() {
        return group(tokens, message, features, (label, oneof), depth);
    }
    let (kind, map) = match tokens.map_types()? {
        Some(types) => (RawKind::Named(String::new()), Some(types)),
        None => (kind_of(&tokens.full_name()?), None),
    };
    let name = tokens.word()?.to_owned();
    tokens.mark('=')?;
    let number = number(tokens)?;
    let mut options = FieldOptions::new(features);
    tokens.field_options(&mut options)?;
    tokens.mark(';')?;
    let mut field = RawField {
        name,
        number,
        kind,
        label,
        oneof,
        default: options.default,
        features: options.features,
    };
    if let Some((key, value)) = map {
        let entry = map_entry(&field.name, [key, value], options.features);
        field.label = Label::Repeated;
        // The entry is inside this message, where only it can have this name.
        field.kind = RawKind::Named(entry.name.clone());
        message.messages.push(entry);
    }
    message.fields.push(field);
    Ok(())
}

fn label(tokens: &mut Tokens<'_>) -> Parsed<Label> {
    let label = match tokens.peek() {
        _ if tokens.is_type_name() => Label::Default,
        Token::Word("optional") => Label::Optional,
        Token::Word("required") => Label::Required,
        Token::Word("repeated") => Label::Repeated,
        _ => Label::Default,
    };
    if label != Label::Default {
        tokens.advance()?;
    }
    Ok(label)
}

/// Parses a group from its keyword on.
fn group(
    tokens: &mut Tokens<'_>,
    message: &mut RawMessage,
    features: Features,
    (label, oneof): (Label, Option<u32>),
    depth: usize,
) -> Parsed<()> {
    tokens.advance()?;
    let name = tokens.word()?.to_owned();
    tokens.mark('=')?;
    let number = number(tokens)?;
    let mut options = FieldOptions::new(features);
    tokens.field_options(&mut options)?;
    let mut inner = RawMessage {
        name: name.clone(),
        ..RawMessage::default()
    };
    tokens.mark('{')?;
    body(tokens, &mut inner, features, depth + 1)?;
    message.messages.push(inner);
    message.fields.push(RawField {
        name: name.to_ascii_lowercase(),
        number,
        kind: RawKind::Group(name),
        label,
        oneof,
        default: None,
        features: options.features,
    });
    Ok(())
}

/// Returns the message type that a map field stands for.
fn map_entry(field: &str, types: [String; 2], features: Features) -> RawMessage {
    let entry_field = |name: &str, number, kind: &String| RawField {
        name: name.to_owned(),
        number,
        kind: kind_of(kind),
        label: Label::Optional,
        oneof: None,
        default: None,
        features: Features {
            is_delimited: false,
            ..features
        },
    };
    let [key, value] = &types;
    RawMessage {
        name: entry_name(field),
        fields: vec![entry_field("key", 1, key), entry_field("value", 2, value)],
        is_map_entry: true,
        ..RawMessage::default()
    }
}

/// Returns the name that `protoc` gives to the entries of a map: `by_id` becomes `ByIdEntry`.
fn entry_name(field: &str) -> String {
    let mut name = String::with_capacity(field.len() + 5);
    let mut starts_word = true;
    for c in field.chars() {
        match c {
            '_' => starts_word = true,
            c if starts_word => {
                name.push(c.to_ascii_uppercase());
                starts_word = false;
            }
            c => name.push(c),
        }
    }
    name + "Entry"
}

/// Parses an enum from its name on.
fn enumeration(tokens: &mut Tokens<'_>, outer: Features) -> Parsed<RawEnum> {
    let mut features = outer;
    let mut found = RawEnum {
        name: tokens.word()?.to_owned(),
        ..RawEnum::default()
    };
    tokens.mark('{')?;
    loop {
        match tokens.peek() {
            Token::Mark('}') => {
                tokens.advance()?;
                found.is_closed = features.has_closed_enums;
                return Ok(found);
            }
            Token::Mark(';') => tokens.advance()?,
            Token::Word("option") => {
                tokens.advance()?;
                tokens.option(&mut features, false)?;
            }
            Token::Word("reserved") => tokens.skip_statement()?,
            _ => {
                let name = tokens.word()?.to_owned();
                tokens.mark('=')?;
                found.values.push((name, number(tokens)?));
                tokens.field_options(&mut FieldOptions::new(features))?;
                tokens.mark(';')?;
            }
        }
    }
}

/// Parses an integer with an optional sign.
fn number(tokens: &mut Tokens<'_>) -> Parsed<i64> {
    let is_negative = tokens.skip_mark('-')?;
    match tokens.take()? {
        Token::Number(digits) => {
            let value = integer(digits).and_then(|value| i64::try_from(value).ok());
            let value = value.ok_or_else(|| format!("\"{digits}\" is not an integer"))?;
            Ok(if is_negative { -value } else { value })
        }
        other => Err(unexpected("a number", &other)),
    }
}
