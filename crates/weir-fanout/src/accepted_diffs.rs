//! Diff options of a Kafka connection by the formats that a client accepts.

use std::sync::Arc;

use weir_tlcp::diff::DiffOptions;
use weir_tlcp::request::Diffs;

/// The options of one connection for each set of formats that clients accept.
#[derive(Debug, Default)]
pub struct ConnectionDiffs {
    /// By accepted formats; equal options share one object, `None` means no diffs.
    variants: [Option<Arc<DiffOptions>>; 4],
}

impl ConnectionDiffs {
    /// Creates the options of a connection for each set of formats.
    pub fn new(options: &DiffOptions) -> Self {
        let mut variants: [Option<Arc<DiffOptions>>; 4] = [const { None }; 4];
        for index in 0..variants.len() {
            let order = options.order.accepted_by(Diffs {
                json_patch: index & 1 != 0,
                tlcp_diff: index & 2 != 0,
            });
            let same = variants.iter().flatten().find(|one| one.order == order);
            let own = || {
                let options = options.clone();
                Arc::new(DiffOptions { order, ..options })
            };
            let shared = same.cloned();
            variants[index] = (!order.is_none()).then(|| shared.unwrap_or_else(own));
        }
        Self { variants }
    }

    /// Returns the options for clients that accept these formats; `None` means no diffs.
    pub fn of(&self, accepted: AcceptedDiffs) -> Option<&Arc<DiffOptions>> {
        self.variants[usize::from(accepted.0)].as_ref()
    }
}

/// Formats that a client accepts, in one byte because each session has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedDiffs(u8);

impl From<Diffs> for AcceptedDiffs {
    fn from(diffs: Diffs) -> Self {
        Self(u8::from(diffs.json_patch) | u8::from(diffs.tlcp_diff) << 1)
    }
}

#[cfg(test)]
mod tests {
    use weir_tlcp::diff::{DiffFormat, DiffOrder};

    use super::*;

    #[test]
    fn clients_with_equal_diffs_share_options() {
        let options = DiffOptions {
            order: DiffOrder::of([DiffFormat::JsonPatch]),
            ..DiffOptions::default()
        };
        let diffs = ConnectionDiffs::new(&options);
        let only_patch = Diffs {
            json_patch: true,
            tlcp_diff: false,
        };
        let (any, patch) = (diffs.of(Diffs::ANY.into()), diffs.of(only_patch.into()));
        assert!(Arc::ptr_eq(any.expect("patches"), patch.expect("patches")));
        assert_eq!(any.map(|one| one.order), Some(options.order));
        assert!(diffs.of(Diffs::NONE.into()).is_none());
    }
}
