//! Contents of binary stores.

use super::error::StoreError;

/// Contents of a JKS or PKCS12 store.
#[derive(Default)]
pub(super) struct StoreContents {
    pub(super) keys: Vec<StoredKey>,
    pub(super) trusted: Vec<Vec<u8>>,
}

/// A private key with its certificates.
pub(super) struct StoredKey {
    pub(super) alias: String,
    /// PKCS#8, or the reason why it was not decrypted. The certificates need no key password.
    pub(super) key: Result<Vec<u8>, StoreError>,
    pub(super) chain: Vec<Vec<u8>>,
}
