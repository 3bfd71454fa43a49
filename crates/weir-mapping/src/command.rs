//! Mode COMMAND: what a record says about a key of an item.

/// Name of the field that identifies a row.
pub const KEY_FIELD: &str = "key";
/// Name of the field that says what happens to the row.
pub const COMMAND_FIELD: &str = "command";
/// Key of the records that are about the snapshot and not about a row.
const SNAPSHOT_KEY: &str = "snapshot";

/// What a connection's records say about rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandMode {
    /// Whatever is mapped to the fields `key` and `command`; every mode may be subscribed.
    #[default]
    AsMapped,
    /// `fields.evaluate.as.command.enable`: as mapped, and records with key `snapshot` clear or end
    /// the snapshot. Only mode COMMAND may be subscribed.
    Evaluated,
    /// `fields.auto.command.mode.enable`: records add rows, tombstones delete them. Only mode COMMAND
    /// may be subscribed.
    Auto,
}

/// What happens to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCommand {
    /// It is new.
    Add,
    /// It has new values.
    Update,
    /// It is gone.
    Delete,
}

/// What a record means in mode COMMAND.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEvent<'a> {
    /// Something happens to the row with this key.
    Row {
        /// Never blank.
        key: &'a str,
        /// What happens.
        command: RowCommand,
    },
    /// All rows are gone, and what follows is a snapshot again.
    ClearSnapshot,
    /// The snapshot is complete.
    EndOfSnapshot,
}

impl RowCommand {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Add, Self::Update, Self::Delete];
        all.into_iter().find(|command| command.as_str() == word)
    }
}

impl CommandMode {
    /// Whether COMMAND is the only mode that may be subscribed.
    pub fn is_enforced(self) -> bool {
        self != Self::AsMapped
    }

    /// Whether an item's records are a snapshot until one says that it is complete.
    pub fn begins_with_snapshot(self) -> bool {
        self == Self::Evaluated
    }

    /// Reads the two fields of a record; `None` if it must be left out.
    pub fn read<'a>(self, key: Option<&'a str>, command: Option<&str>) -> Option<CommandEvent<'a>> {
        let key = key.filter(|key| !crate::text::is_blank(key))?;
        let command = command?;
        if self == Self::Evaluated && key == SNAPSHOT_KEY {
            return match command {
                "CS" => Some(CommandEvent::ClearSnapshot),
                "EOS" => Some(CommandEvent::EndOfSnapshot),
                _ => None,
            };
        }
        let command = RowCommand::from_word(command)?;
        Some(CommandEvent::Row { key, command })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_the_protocol_are_commands() {
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
    fn records_about_the_snapshot_are_read_where_they_are_asked_for() {
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
