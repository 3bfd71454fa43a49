//! Structure of `adapters.xml`: elements and attributes with variables expanded, unchecked.

use roxmltree::{Document, Node};
use weir_formats::white_space::{is_blank, trim};

use super::connection::Unresolved;
use super::expand::expand;
use super::foreign;
use super::note::Severity;
use super::source::{Findings, Parameter};
use crate::error::Problem;

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
    pub(super) line: Option<u32>,
    pub(super) class: Class,
    pub(super) parameters: Vec<Parameter>,
    pub(super) unresolved: Unresolved,
}

/// Adapter class of a provider.
pub(super) enum Class {
    Missing,
    /// With the line of the name.
    Named(String, Option<u32>),
    /// The name contains undefined variables.
    Unresolved,
}

impl RawFile {
    /// Parses as much as possible. Returns `None` if there is nothing usable.
    pub(super) fn parse(
        xml: &str,
        env: &dyn Fn(&str) -> Option<String>,
        findings: &mut Findings<'_>,
    ) -> Option<Self> {
        if let Some((line, problem)) = foreign::recognize(xml) {
            findings.reject(Some(line), problem);
            return None;
        }
        let document = match Document::parse(xml) {
            Ok(document) => document,
            Err(error) => {
                let problem = Problem(format!("not well-formed XML: {error}"));
                findings.reject(Some(error.pos().row), problem);
                return None;
            }
        };
        let lines = LineIndex::new(xml);
        let mut reader = XmlReader {
            env,
            lines,
            findings,
        };
        reader.file(document.root_element())
    }
}

struct XmlReader<'a, 'f> {
    env: &'a dyn Fn(&str) -> Option<String>,
    lines: LineIndex,
    findings: &'a mut Findings<'f>,
}

/// An attribute or a text.
enum Text {
    Missing,
    Known(String),
    /// Text as written, with undefined variables; each is reported as an error.
    Unresolved(String),
}

impl XmlReader<'_, '_> {
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
        let what = match self.attribute(root, "id") {
            Text::Unresolved(_) => return None,
            Text::Known(id) if !is_blank(&id) => return Some(id),
            Text::Known(_) => "value of attribute id of <adapters_conf>",
            Text::Missing => "attribute id of <adapters_conf>",
        };
        self.missing(root, what, "write the adapter set name that clients give");
        None
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
                        Text::Known(class) => {
                            Class::Named(class.trim().to_owned(), self.line(child))
                        }
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
        let before = self.findings.errors.len();
        let value = match self.text(element, &format!("parameter [{name}]")) {
            Text::Known(value) | Text::Unresolved(value) => value,
            Text::Missing => String::new(),
        };
        for mut error in self.findings.errors.drain(before..) {
            error.at.connection.clone_from(&provider.name);
            error.parameter = Some(trim(&name).to_owned());
            provider.unresolved.values.push(error);
        }
        let line = self.line(element);
        provider.parameters.push(Parameter { name, value, line });
    }

    /// Reports an element of the Lightstreamer server as a note, any other as an error or warning.
    fn foreign(&mut self, element: Node<'_, '_>, parent: &str) {
        let name = element.tag_name().name();
        let line = self.line(element);
        if SERVER_ELEMENTS.contains(&name) {
            let text =
                format!("element <{name}> is ignored: it configures the Lightstreamer server");
            return self.findings.note(Severity::Info, line, text);
        }
        let problem = Problem(format!(
            "unknown element <{name}> inside <{parent}>; remove it or correct its spelling"
        ));
        if let Err(problem) = self.findings.tolerate(line, problem, "element ignored") {
            self.findings.reject(line, problem);
        }
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
            Ok(expanded) => return Text::Known(expanded),
            Err(undefined) => undefined,
        };
        for variable in undefined {
            let problem = Problem(format!(
                "environment variable \"{variable}\" used in {context} is not defined; define it, \
                 or write \\$ for a literal dollar sign"
            ));
            self.findings.reject(self.line(node), problem);
        }
        Text::Unresolved(text.to_owned())
    }

    fn missing(&mut self, node: Node<'_, '_>, what: &str, remedy: &str) {
        let problem = Problem::missing_part(what, remedy);
        self.findings.reject(self.line(node), problem);
    }

    fn line(&self, node: Node<'_, '_>) -> Option<u32> {
        Some(self.lines.of(node.range().start))
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
