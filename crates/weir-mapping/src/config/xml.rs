//! Structure of `adapters.xml`: elements and attributes with variables expanded, unchecked.

use roxmltree::{Document, Node};

use super::connection::Unresolved;
use super::expand::expand;
use super::foreign;
use super::note::{Note, Severity};
use super::parameters::ParameterError;
use super::source::{ConfigSource, Parameter};
use crate::error::{ConfigError, Problem};
use crate::text::{is_blank, trim};

/// Elements for the Lightstreamer server that may occur in a provider and have no effect here.
const SERVER_ELEMENTS: &[&str] = &[
    "authentication_pool",
    "classloader",
    "credentials_pool",
    "data_adapter_pool",
    "install_dir",
    "messages_pool",
    "mpn_pool",
    "outbound_events_mode",
    "remote_adapter_pool",
    "subscription_pool",
    "tls_pool",
];

/// A file as far as it could be read; the rest is reported as errors.
pub(super) struct RawFile {
    pub(super) set_id: Option<String>,
    pub(super) metadata: Option<RawProvider>,
    pub(super) data: Vec<RawProvider>,
}

pub(super) struct RawProvider {
    pub(super) name: Option<String>,
    pub(super) line: u32,
    pub(super) class: Class,
    pub(super) parameters: Vec<Parameter>,
    pub(super) unresolved: Unresolved,
}

/// Adapter class of a provider.
pub(super) enum Class {
    Missing,
    Named {
        name: String,
        line: u32,
    },
    /// The name contains undefined variables.
    Unresolved,
}

impl RawFile {
    /// Parses as much as possible. Returns `None` if there is nothing usable.
    pub(super) fn parse(
        source: &ConfigSource<'_>,
        xml: &str,
        env: &dyn Fn(&str) -> Option<String>,
        notes: &mut Vec<Note>,
        errors: &mut Vec<ConfigError>,
    ) -> Option<Self> {
        if let Some((line, problem)) = foreign::recognize(xml) {
            errors.push(source.error(Some(line), None, problem));
            return None;
        }
        let document = match Document::parse(xml) {
            Ok(document) => document,
            Err(error) => {
                let line = error.pos().row;
                errors.push(source.error(Some(line), None, Problem::Xml(error.to_string())));
                return None;
            }
        };
        let lines = LineIndex::new(xml);
        let mut reader = XmlReader {
            source,
            env,
            lines,
            notes,
            errors,
        };
        reader.file(document.root_element())
    }
}

struct XmlReader<'a> {
    source: &'a ConfigSource<'a>,
    env: &'a dyn Fn(&str) -> Option<String>,
    lines: LineIndex,
    notes: &'a mut Vec<Note>,
    errors: &'a mut Vec<ConfigError>,
}

/// An attribute or a text.
enum Text {
    Missing,
    Known(String),
    /// Text as written, with undefined variables; each is reported as an error.
    Unresolved(String),
}

impl XmlReader<'_> {
    fn file(&mut self, root: Node<'_, '_>) -> Option<RawFile> {
        if root.tag_name().name() != "adapters_conf" {
            self.missing(root, "root element <adapters_conf>", "is this the file?");
            return None;
        }
        let mut file = RawFile {
            set_id: self.set_id(root),
            metadata: None,
            data: Vec::new(),
        };
        for element in root.children().filter(Node::is_element) {
            match element.tag_name().name() {
                "metadata_provider" => file.metadata = Some(self.provider(element)),
                "data_provider" => file.data.push(self.provider(element)),
                _ => self.foreign(element, "adapters_conf"),
            }
        }
        Some(file)
    }

    fn set_id(&mut self, root: Node<'_, '_>) -> Option<String> {
        let remedy = "write the adapter set name that clients give";
        match self.attribute(root, "id") {
            Text::Known(id) if is_blank(&id) => {
                self.missing(root, "value of attribute id of <adapters_conf>", remedy);
                None
            }
            Text::Known(id) => Some(id),
            Text::Unresolved(_) => None,
            Text::Missing => {
                self.missing(root, "attribute id of <adapters_conf>", remedy);
                None
            }
        }
    }

    fn provider(&mut self, element: Node<'_, '_>) -> RawProvider {
        let name = match self.attribute(element, "name") {
            Text::Missing => None,
            Text::Known(name) | Text::Unresolved(name) => Some(name),
        };
        let mut provider = RawProvider {
            name,
            line: self.line(element),
            class: Class::Missing,
            parameters: Vec::new(),
            unresolved: Unresolved::default(),
        };
        for child in element.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "adapter_class" => {
                    provider.class = match self.text(child, "element <adapter_class>") {
                        Text::Known(class) => Class::Named {
                            name: class.trim().to_owned(),
                            line: self.line(child),
                        },
                        _ => Class::Unresolved,
                    };
                }
                "param" => self.parameter(child, &mut provider),
                _ => self.foreign(child, element.tag_name().name()),
            }
        }
        provider
    }

    fn parameter(&mut self, element: Node<'_, '_>, provider: &mut RawProvider) {
        let name = match self.attribute(element, "name") {
            Text::Known(name) => name,
            Text::Unresolved(_) => {
                provider.unresolved.has_names = true;
                return;
            }
            Text::Missing => {
                let remedy = "write <param name=\"...\">";
                return self.missing(element, "attribute name of <param>", remedy);
            }
        };
        for child in element.children().filter(Node::is_element) {
            self.foreign(child, "param");
        }
        let line = Some(self.line(element));
        let before = self.errors.len();
        let value = match self.text(element, &format!("parameter [{name}]")) {
            Text::Known(value) | Text::Unresolved(value) => value,
            Text::Missing => String::new(),
        };
        for mut error in self.errors.drain(before..) {
            error.at.connection.clone_from(&provider.name);
            let name = trim(&name).to_owned();
            provider
                .unresolved
                .values
                .push(ParameterError { name, error });
        }
        provider.parameters.push(Parameter { name, value, line });
    }

    /// Reports an element of the Lightstreamer server as a note, any other as an error or warning.
    fn foreign(&mut self, element: Node<'_, '_>, parent: &str) {
        let name = element.tag_name().name();
        let line = Some(self.line(element));
        let (severity, text) = if SERVER_ELEMENTS.contains(&name) {
            (
                Severity::Info,
                format!("element <{name}> is ignored: it configures the Lightstreamer server"),
            )
        } else {
            let (element, parent) = (name.to_owned(), parent.to_owned());
            let problem = Problem::UnknownElement { element, parent };
            if self.source.options.strict {
                self.errors.push(self.source.error(line, None, problem));
                return;
            }
            (Severity::Warning, format!("{problem}; element ignored"))
        };
        self.notes
            .push(self.source.note(severity, line, None, text));
    }

    fn attribute(&mut self, node: Node<'_, '_>, name: &str) -> Text {
        let Some(text) = node.attribute(name) else {
            return Text::Missing;
        };
        let context = format!("attribute {name} of <{}>", node.tag_name().name());
        self.expand(node, text, &context)
    }

    /// Returns the text directly inside an element; comments may split it.
    fn text(&mut self, node: Node<'_, '_>, context: &str) -> Text {
        let parts = node
            .children()
            .filter(Node::is_text)
            .filter_map(|part| part.text());
        self.expand(node, &parts.collect::<String>(), context)
    }

    fn expand(&mut self, node: Node<'_, '_>, text: &str, context: &str) -> Text {
        let undefined = match expand(text, self.env) {
            Ok(expanded) => return Text::Known(expanded.into_owned()),
            Err(undefined) => undefined,
        };
        let line = Some(self.line(node));
        for variable in undefined {
            let context = context.to_owned();
            let problem = Problem::UndefinedVariable { variable, context };
            self.errors.push(self.source.error(line, None, problem));
        }
        Text::Unresolved(text.to_owned())
    }

    fn missing(&mut self, node: Node<'_, '_>, what: &str, remedy: &'static str) {
        let problem = Problem::MissingPart {
            what: what.to_owned(),
            remedy,
        };
        let line = Some(self.line(node));
        self.errors.push(self.source.error(line, None, problem));
    }

    fn line(&self, node: Node<'_, '_>) -> u32 {
        self.lines.of(node.range().start)
    }
}

/// Line numbers by byte position. A lookup in the XML parser would read the file from its start.
struct LineIndex {
    ends: Vec<usize>,
}

impl LineIndex {
    fn new(text: &str) -> Self {
        Self {
            ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect(),
        }
    }

    fn of(&self, position: usize) -> u32 {
        let before = self.ends.partition_point(|&end| end < position);
        u32::try_from(before).map_or(u32::MAX, |line| line.saturating_add(1))
    }
}
