use super::*;
use crate::local_time::LocalTime;

fn fields(names: &str) -> FieldMap {
    let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
    FieldMap::new(&names)
}

/// Client with its tables.
struct VerifyingClient {
    check: ClientCheck,
    keys: KeyTable,
    fields: FieldMap,
    marks: bool,
}

impl VerifyingClient {
    fn new(names: &str) -> Self {
        Self {
            check: ClientCheck::new(Conflation::Forbidden),
            keys: KeyTable::default(),
            fields: fields(names),
            marks: false,
        }
    }

    /// Reads an update of the item of Apple.
    fn read(&mut self, text: &str) -> Result<ReceivedUpdate, UpdateFault> {
        let apple = self.keys.id(b"Apple").unwrap();
        self.read_as(ExpectedUpdate::Key("Apple", apple), text)
    }

    fn read_as(
        &mut self,
        expected_update: ExpectedUpdate<'_>,
        text: &str,
    ) -> Result<ReceivedUpdate, UpdateFault> {
        let mut context = DecodeContext {
            due: &mut DueReader::with_member("timestamp", LocalTime::utc()),
            keys: &mut self.keys,
            marks: self.marks,
        };
        self.check
            .read(text.as_bytes(), expected_update, &self.fields, &mut context)
    }

    fn seq(&mut self, text: &str) -> Result<u64, UpdateFault> {
        let received = self.read(text)?;
        match received.identity {
            RecordIdentity::Stamp(stamp) => {
                assert_eq!((stamp.due_unix_ns, stamp.producer), (5, 1));
                assert_eq!(received.due_unix_ns, Some(5));
                Ok(stamp.seq)
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn stamps_are_found_with_unchanged_fields() {
    let mut client = VerifyingClient::new("key value ts partition offset weir");
    for (text, seq) in [
        ("Apple|v|1|0|7|5.1.0.9", 0),
        ("^5|5.1.1.9", 1),
        ("|#|$|^2|5.1.2.9", 2),
        // The stamp is unchanged.
        ("|v2|^4", 2),
        ("%41pple|v|1|0|8|5.1.3.9", 3),
    ] {
        assert_eq!(client.seq(text), Ok(seq), "{text}");
    }
}

#[test]
fn invalid_updates_are_errors() {
    let mut client = VerifyingClient::new("key value weir");
    assert_eq!(client.seq("Apple||5.1.0.9"), Err(UpdateFault::NotExplicit));
    for (text, fault) in [
        ("Apple|v", UpdateFault::FieldCount),
        ("Apple|v|5.1.0.9|x", UpdateFault::FieldCount),
        ("Apple|v|5.1.0", UpdateFault::BadStamp),
        ("Pear|v|5.1.0.9", UpdateFault::ForeignKey),
        ("Apple|^Px|5.1.0.9", UpdateFault::Diff),
        ("Apple|^x|5.1.0.9", UpdateFault::BadMark),
    ] {
        assert_eq!(client.seq(text), Err(fault), "{text}");
    }
    assert_eq!(client.seq("Apple|v|5.1.0.9"), Ok(0));
    assert_eq!(client.seq("^4"), Err(UpdateFault::FieldCount));
}

const HOUR: Option<u64> = Some(3_600_000_000_000);

#[test]
fn records_without_stamp_use_text_and_position() {
    let mut client = VerifyingClient::new("key value partition offset");
    let value = "1970-01-01 01:00:00.000-pid-0-xyz";
    for (text, offset) in [
        (format!("Apple|{value}|0|7"), 7),
        (format!("|{value}||8"), 8),
        // Same millisecond, same text.
        ("^3|9".to_owned(), 9),
    ] {
        let received = client.read(&text).unwrap();
        let position = RecordIdentity::Position {
            partition: 0,
            offset,
        };
        assert_eq!((received.identity, received.due_unix_ns), (position, HOUR));
    }
    assert_eq!(client.read("|no time||9").unwrap().due_unix_ns, None);
}

#[test]
fn json_fields_have_the_timestamp_field() {
    let mut client = VerifyingClient::new("timestamp fstValue sndValue intNum");
    client.marks = true;
    let text = "1970-01-01 01:00:00.000";
    let received = client.read(&format!("PREFIX-{text}|x|Apple|7")).unwrap();
    assert!(received.marked);
    assert_eq!(
        (received.identity, received.due_unix_ns),
        (RecordIdentity::Unknown, HOUR)
    );
    let received = client.read("^4").unwrap();
    assert!(received.marked && received.due_unix_ns == HOUR);
    let received = client.read(&format!("{text}|^3")).unwrap();
    assert!(!received.marked && received.due_unix_ns == HOUR);
}

#[test]
fn item_of_all_records_distinguishes_keys() {
    let mut client = VerifyingClient::new("key weir");
    let no_key = client.keys.id(b"").unwrap();
    let mut key = |text: &str| {
        let received = client.read_as(ExpectedUpdate::All(no_key), text).unwrap();
        received.key.map(|key| key.0)
    };
    assert_eq!(key("#|5.1.0.9"), Some(0));
    assert_eq!(key("Apple|5.1.0.9"), Some(1));
    assert_eq!(key("|5.1.1.9"), Some(1));
    assert_eq!(key("%41pple|5.1.1.9"), Some(1));
    assert_eq!(key("$|5.1.1.9"), Some(0));
}
