//! The shape of `adapters.xml`: elements and attributes, variables expanded, nothing checked.

use roxmltree::{Document, Node};

use super::expand::expand;
use super::{Note, Parameter, Severity, Source};
use crate::error::{ConfigError, Problem};

/// Elements of the server's own that may stand in a provider and mean nothing here.
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

pub(super) struct RawFile {
    pub(super) set_id: String,
    pub(super) metadata: Option<RawProvider>,
    pub(super) data: Vec<RawProvider>,
}

pub(super) struct RawProvider {
    pub(super) name: Option<String>,
    pub(super) line: u32,
    pub(super) class: Option<(String, u32)>,
    pub(super) parameters: Vec<Parameter>,
}

impl RawFile {
    pub(super) fn parse(
        source: &Source<'_>,
        xml: &str,
        env: &dyn Fn(&str) -> Option<String>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        let document = Document::parse(xml).map_err(|error| {
            let line = error.pos().row;
            source.error(Some(line), None, Problem::Xml(error.to_string()))
        })?;
        let lines = Lines::new(xml);
        Reader {
            source,
            env,
            lines,
            notes,
        }
        .file(document.root_element())
    }
}

struct Reader<'a> {
    source: &'a Source<'a>,
    env: &'a dyn Fn(&str) -> Option<String>,
    lines: Lines,
    notes: &'a mut Vec<Note>,
}

impl Reader<'_> {
    fn file(&mut self, root: Node<'_, '_>) -> Result<RawFile, ConfigError> {
        if root.tag_name().name() != "adapters_conf" {
            return Err(self.missing(root, "root element <adapters_conf>", "is this the file?"));
        }
        let Some(set_id) = self.attribute(root, "id")? else {
            let remedy = "write the adapter set name that clients give";
            return Err(self.missing(root, "attribute id of <adapters_conf>", remedy));
        };
        let mut file = RawFile {
            set_id,
            metadata: None,
            data: Vec::new(),
        };
        for element in root.children().filter(Node::is_element) {
            match element.tag_name().name() {
                "metadata_provider" => file.metadata = Some(self.provider(element)?),
                "data_provider" => file.data.push(self.provider(element)?),
                _ => self.foreign(element, "adapters_conf")?,
            }
        }
        Ok(file)
    }

    fn provider(&mut self, element: Node<'_, '_>) -> Result<RawProvider, ConfigError> {
        let mut provider = RawProvider {
            name: self.attribute(element, "name")?,
            line: self.line(element),
            class: None,
            parameters: Vec::new(),
        };
        for child in element.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "adapter_class" => {
                    let class = self.text(child, "element <adapter_class>")?;
                    provider.class = Some((class.trim().to_owned(), self.line(child)));
                }
                "param" => provider.parameters.push(self.parameter(child)?),
                _ => self.foreign(child, element.tag_name().name())?,
            }
        }
        Ok(provider)
    }

    fn parameter(&mut self, element: Node<'_, '_>) -> Result<Parameter, ConfigError> {
        let Some(name) = self.attribute(element, "name")? else {
            let remedy = "write <param name=\"...\">";
            return Err(self.missing(element, "attribute name of <param>", remedy));
        };
        let value = self.text(element, &format!("parameter [{name}]"))?;
        for child in element.children().filter(Node::is_element) {
            self.foreign(child, "param")?;
        }
        Ok(Parameter {
            name,
            value,
            line: Some(self.line(element)),
        })
    }

    /// An element of the server's is a note; any other is a mistake.
    fn foreign(&mut self, element: Node<'_, '_>, parent: &str) -> Result<(), ConfigError> {
        let name = element.tag_name().name();
        let line = Some(self.line(element));
        let (severity, text) = if SERVER_ELEMENTS.contains(&name) {
            (
                Severity::Info,
                format!("element <{name}> is ignored: it configures another server"),
            )
        } else {
            let (element, parent) = (name.to_owned(), parent.to_owned());
            let problem = Problem::UnknownElement { element, parent };
            if self.source.options.strict {
                return Err(self.source.error(line, None, problem));
            }
            (Severity::Warning, format!("{problem}; it is ignored"))
        };
        self.notes
            .push(self.source.note(severity, line, None, text));
        Ok(())
    }

    fn attribute(&self, node: Node<'_, '_>, name: &str) -> Result<Option<String>, ConfigError> {
        let Some(text) = node.attribute(name) else {
            return Ok(None);
        };
        let context = format!("attribute {name} of <{}>", node.tag_name().name());
        self.expand(node, text, &context).map(Some)
    }

    /// All text directly inside an element; comments may cut it into parts.
    fn text(&self, node: Node<'_, '_>, context: &str) -> Result<String, ConfigError> {
        let parts = node
            .children()
            .filter(Node::is_text)
            .filter_map(|part| part.text());
        self.expand(node, &parts.collect::<String>(), context)
    }

    fn expand(&self, node: Node<'_, '_>, text: &str, context: &str) -> Result<String, ConfigError> {
        let expanded = expand(text, self.env).map_err(|variable| {
            let problem = Problem::UndefinedVariable {
                variable,
                context: context.to_owned(),
            };
            self.source.error(Some(self.line(node)), None, problem)
        })?;
        Ok(expanded.into_owned())
    }

    fn missing(&self, node: Node<'_, '_>, what: &str, remedy: &'static str) -> ConfigError {
        let problem = Problem::MissingPart {
            what: what.to_owned(),
            remedy,
        };
        self.source.error(Some(self.line(node)), None, problem)
    }

    fn line(&self, node: Node<'_, '_>) -> u32 {
        self.lines.of(node.range().start)
    }
}

/// Line numbers by byte position; the parser's own look-up reads the file from its start each time.
struct Lines {
    ends: Vec<usize>,
}

impl Lines {
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
