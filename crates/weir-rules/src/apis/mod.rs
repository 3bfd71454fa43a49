//! The rights that each API needs.

mod admin;
mod data;
mod groups;

use super::table::ApiAccess;

/// Returns how the rules apply to an API, or `None` if that is unknown: such an API is not offered.
pub(super) fn access(key: i16) -> Option<&'static ApiAccess> {
    let mut all = data::APIS.iter().chain(groups::APIS).chain(admin::APIS);
    all.find(|api| api.key == key)
}
