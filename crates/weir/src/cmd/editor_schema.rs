//! JSON Schemas of the files that commands write. Editors complete and check keys with them.

/// Schema that a command writes next to a file.
pub(crate) struct EditorSchema {
    /// Name of its file.
    pub(crate) file: &'static str,
    /// Its content.
    pub(crate) text: &'static str,
    /// First line of a file that refers to it.
    pub(crate) header: &'static str,
}

macro_rules! schema {
    ($file:literal) => {
        EditorSchema {
            file: $file,
            text: include_str!(concat!("../../../../docs/", $file)),
            header: concat!("#:schema ", $file, "\n"),
        }
    };
}

/// Schema of `gateway.toml`.
pub(crate) const GATEWAY: EditorSchema = schema!("gateway.schema.json");
/// Schema of plans.
pub(crate) const PLAN: EditorSchema = schema!("plan.schema.json");
