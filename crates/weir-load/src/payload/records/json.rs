//! Writes the object of the kind `json2`.

use super::fields::{KEY_FIELD, STAMP_FIELD, SlotContent, TIME_FIELD};
use super::writer::{RecordWriter, TextForm, WriteFault};

/// Writes an object: the members of the kind `json`, and the stamp.
pub(super) fn write(writer: &mut RecordWriter<'_>) -> Result<(), WriteFault> {
    let form = TextForm::Json;
    name(writer, "{", TIME_FIELD, "\"");
    writer.slot(SlotContent::TimeText, form);
    name(writer, "\",", "fstValue", "\"");
    writer.text(form)?;
    name(writer, "\",", KEY_FIELD, "\"");
    writer.slot(SlotContent::Key, form);
    name(writer, "\",", "intNum", "");
    let number = writer.random() as i32;
    writer.out.extend(number.to_string().into_bytes());
    name(writer, ",", STAMP_FIELD, "\"");
    writer.slot(SlotContent::Stamp, form);
    writer.out.extend_from_slice(b"\"}");
    Ok(())
}

fn name(writer: &mut RecordWriter<'_>, before: &str, name: &str, after: &str) {
    for part in [before, "\"", name, "\":", after] {
        writer.out.extend_from_slice(part.as_bytes());
    }
}
