//! Reads the diff settings of `lightstreamer_conf.xml`; its other settings do not apply.

use std::path::Path;

use weir_mapping::{Note, Severity};
use weir_tlcp::diff::{DiffFormat, DiffOptions, DiffOrder};

use crate::error::{GatewayError, in_file};

/// Elements with a counterpart in the gateway's configuration.
const COUNTERPARTS: [(&str, &str); 7] = [
    ("http_server", "listen in gateway.toml, or --listen"),
    ("https_server", "gateway.toml"),
    ("request_limit", "limits.request_bytes in gateway.toml"),
    ("max_sessions", "limits.sessions in gateway.toml"),
    ("max_buffer_size", "limits.queue_bytes in gateway.toml"),
    ("monitor", "admin.listen in gateway.toml, or --admin"),
    ("adapters_dir", "--adapters"),
];

/// Reads the diff settings; all other elements become notes.
///
/// # Errors
/// Returns an error if the file is not XML or an element has an invalid value.
pub(crate) fn read(
    path: &Path,
    text: &str,
    notes: &mut Vec<Note>,
) -> Result<DiffOptions, GatewayError> {
    let at = |line| in_file(path.display(), line);
    let fail = |reason: String| GatewayError::Config {
        at: at(None),
        reason,
    };
    // A document type could define entities that expand without bound; it is rejected.
    let document =
        roxmltree::Document::parse(text).map_err(|error| fail(format!("not XML: {error}")))?;
    let root = document.root_element();
    if root.tag_name().name() != "lightstreamer_conf" {
        let name = root.tag_name().name();
        let reason = format!("root element <{name}>: expected <lightstreamer_conf>");
        return Err(fail(reason));
    }
    let mut options = DiffOptions::default();
    let mut deltas = true;
    let mut ignored = Vec::new();
    for element in root.children().filter(roxmltree::Node::is_element) {
        let name = element.tag_name().name();
        let line = document.text_pos_at(element.range().start).row;
        let value = element.text().unwrap_or_default().trim();
        let refuse = |remedy: &str| GatewayError::Config {
            at: at(Some(line)),
            reason: format!("<{name}> = \"{value}\": {remedy}"),
        };
        match name {
            "delta_delivery" => {
                deltas = match value {
                    "Y" | "y" => true,
                    "N" | "n" => false,
                    _ => return Err(refuse("use Y or N")),
                };
            }
            "default_diff_order" => {
                options.order = order(value).ok_or_else(|| {
                    refuse("list jsonpatch and diff_match_patch, or leave it empty")
                })?;
            }
            "jsonpatch_min_length" => {
                options.json_patch_min_bytes = value
                    .parse()
                    .map_err(|_| refuse("give a number of characters, such as 50"))?;
            }
            other => ignored.push((line, other)),
        }
    }
    let mut note = |line: u32, text: String| {
        notes.push(Note {
            severity: Severity::Info,
            at: at(Some(line)),
            text,
        });
    };
    if !deltas {
        options.order = DiffOrder::NONE;
        let text = "delta_delivery is off: no diffs; unchanged fields are omitted anyway";
        note(1, text.to_owned());
    }
    for (line, name) in ignored {
        let counterpart = COUNTERPARTS.iter().find(|(theirs, _)| *theirs == name);
        let text = match counterpart {
            Some((_, ours)) => format!("<{name}> is not read; see {ours}"),
            None => format!("<{name}> is not read: only diff settings are supported"),
        };
        note(line, text);
    }
    Ok(options)
}

fn order(text: &str) -> Option<DiffOrder> {
    let names = text.split([',', ' ', '\t', '\n', '\r']);
    let formats = names
        .filter(|name| !name.is_empty())
        .map(|name| match name {
            "jsonpatch" => Some(DiffFormat::JsonPatch),
            "diff_match_patch" | "tlcp_diff" => Some(DiffFormat::TlcpDiff),
            _ => None,
        });
    formats.collect::<Option<Vec<_>>>().map(DiffOrder::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(inside: &str) -> Result<(DiffOptions, Vec<String>), GatewayError> {
        let text =
            format!("<?xml version=\"1.0\"?>\n<lightstreamer_conf>{inside}</lightstreamer_conf>");
        let mut notes = Vec::new();
        let options = read(Path::new("conf.xml"), &text, &mut notes);
        let notes = notes.iter().map(ToString::to_string).collect();
        options.map(|options| (options, notes))
    }

    #[test]
    fn diff_settings_are_read_others_are_noted() {
        let (options, notes) = parsed(
            "\n<http_server name=\"x\"><port>8080</port></http_server>\n\
             <default_diff_order> jsonpatch, diff_match_patch </default_diff_order>\n\
             <jsonpatch_min_length>500</jsonpatch_min_length>\n\
             <collector_millis>2000</collector_millis>",
        )
        .expect("valid");
        assert!(
            options
                .order
                .formats()
                .eq([DiffFormat::JsonPatch, DiffFormat::TlcpDiff])
        );
        assert_eq!(options.json_patch_min_bytes, 500);
        assert_eq!(
            notes,
            [
                "conf.xml:3: note: <http_server> is not read; see listen in gateway.toml, or \
                 --listen",
                "conf.xml:6: note: <collector_millis> is not read: only diff settings are \
                 supported",
            ]
        );
    }

    #[test]
    fn disabled_delta_delivery_disables_diffs() {
        let order = "<default_diff_order>jsonpatch</default_diff_order>";
        let (options, notes) =
            parsed(&format!("{order}<delta_delivery>N</delta_delivery>")).expect("valid");
        assert!(options.order.is_none() && notes.len() == 1);
        let (options, notes) =
            parsed(&format!("{order}<delta_delivery>Y</delta_delivery>")).expect("valid");
        assert!(!options.order.is_none() && notes.is_empty());
        assert!(
            parsed("<default_diff_order/>")
                .expect("valid")
                .0
                .order
                .is_none()
        );
    }

    #[test]
    fn errors_have_line_and_remedy() {
        for (inside, expected) in [
            (
                "\n<default_diff_order>json</default_diff_order>",
                "conf.xml:3: <default_diff_order> = \"json\": list jsonpatch and \
                diff_match_patch, or leave it empty",
            ),
            (
                "<jsonpatch_min_length>x</jsonpatch_min_length>",
                "conf.xml:2: <jsonpatch_min_length> = \"x\": give a number of characters, such as \
                 50",
            ),
            (
                "<delta_delivery>on</delta_delivery>",
                "conf.xml:2: <delta_delivery> = \"on\": use Y or N",
            ),
        ] {
            let error = parsed(inside).expect_err(inside);
            assert_eq!(error.to_string(), expected);
        }
        let mut notes = Vec::new();
        for text in [
            "<x/>",
            "no",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><lightstreamer_conf/>",
        ] {
            assert!(
                read(Path::new("conf.xml"), text, &mut notes).is_err(),
                "{text}"
            );
        }
    }
}
