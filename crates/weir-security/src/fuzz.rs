//! Bodies of the fuzz targets, also run by the property tests. Not a public API.

/// Reads bytes as key and trust stores of all formats, keys and certificates.
pub fn stores(data: &[u8]) {
    crate::stores::fuzz(data);
}

/// Reads text as a JAAS line, as a properties file, and its lines as client properties. No file is
/// opened, because names of files and references are not followed.
pub fn properties(data: &[u8]) {
    crate::settings::fuzz(&String::from_utf8_lossy(data));
}
