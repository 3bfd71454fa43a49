//! Mode COMMAND: the effect of a record on the rows of an item.

use strum::EnumString;

/// Name of the field that identifies a row.
pub const KEY_FIELD: &str = "key";
/// Name of the field with the command for the row.
pub const COMMAND_FIELD: &str = "command";
/// Key of records that concern the snapshot instead of a row.
const SNAPSHOT_KEY: &str = "snapshot";

/// Source of row commands in a connection's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandMode {
    /// The fields `key` and `command` as mapped; all modes may be subscribed.
    #[default]
    AsMapped,
    /// `fields.evaluate.as.command.enable`: as mapped; in addition, records with key `snapshot`
    /// clear or end the snapshot. Only mode COMMAND may be subscribed.
    Evaluated,
    /// `fields.auto.command.mode.enable`: records add rows, tombstones delete them. Only mode
    /// COMMAND may be subscribed.
    Auto,
}

/// Command for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "UPPERCASE")]
pub enum RowCommand {
    /// Add the row.
    Add,
    /// Update the values of the row.
    Update,
    /// Delete the row.
    Delete,
}

/// Meaning of a record in mode COMMAND.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEvent<'a> {
    /// A command for one row.
    Row {
        /// Key of the row; not blank.
        key: &'a str,
        /// Command for the row.
        command: RowCommand,
    },
    /// Delete all rows; a new snapshot follows.
    ClearSnapshot,
    /// End of the snapshot.
    EndOfSnapshot,
}

impl RowCommand {
    /// Returns the word used in the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl CommandMode {
    /// Returns `true` if only mode COMMAND may be subscribed.
    pub fn is_enforced(self) -> bool {
        self != Self::AsMapped
    }

    /// Returns `true` if an item's records form a snapshot until a record ends it.
    pub fn begins_with_snapshot(self) -> bool {
        self == Self::Evaluated
    }

    /// Evaluates the two fields of a record. Returns `None` if the record must be skipped.
    pub fn read<'a>(self, key: Option<&'a str>, command: Option<&str>) -> Option<CommandEvent<'a>> {
        let key = key.filter(|key| !weir_formats::white_space::is_blank(key))?;
        let command = command?;
        if self == Self::Evaluated && key == SNAPSHOT_KEY {
            return match command {
                "CS" => Some(CommandEvent::ClearSnapshot),
                "EOS" => Some(CommandEvent::EndOfSnapshot),
                _ => None,
            };
        }
        let command = command.parse().ok()?;
        Some(CommandEvent::Row { key, command })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_protocol_words_are_commands() {
        let mode = CommandMode::AsMapped;
        let row = |key, command| Some(CommandEvent::Row { key, command });
        assert_eq!(mode.read(Some("k"), Some("ADD")), row("k", RowCommand::Add));
        assert_eq!(
            mode.read(Some("k"), Some("UPDATE")),
            row("k", RowCommand::Update)
        );
        assert_eq!(
            mode.read(Some("k"), Some("DELETE")),
            row("k", RowCommand::Delete)
        );
        for (key, command) in [
            (Some("k"), Some("add")),
            (Some("k"), Some("EOS")),
            (Some("k"), Some("")),
            (Some("k"), None),
            (Some(" "), Some("ADD")),
            (Some(""), Some("ADD")),
            (None, Some("ADD")),
        ] {
            assert_eq!(mode.read(key, command), None, "{key:?} {command:?}");
        }
    }

    #[test]
    fn snapshot_records_need_evaluated_mode() {
        let key = Some("snapshot");
        let evaluated = CommandMode::Evaluated;
        assert_eq!(
            evaluated.read(key, Some("CS")),
            Some(CommandEvent::ClearSnapshot)
        );
        assert_eq!(
            evaluated.read(key, Some("EOS")),
            Some(CommandEvent::EndOfSnapshot)
        );
        assert_eq!(evaluated.read(key, Some("ADD")), None);
        for other in [CommandMode::AsMapped, CommandMode::Auto] {
            assert_eq!(other.read(key, Some("EOS")), None);
            assert!(other.read(key, Some("ADD")).is_some());
        }
    }
}
