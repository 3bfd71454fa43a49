//! Huge pages, which have the few kilobytes of every thread take 2 MiB of memory.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// What was so before.
pub(crate) struct SmallPages {
    were_kept_small: bool,
}

/// Does without huge pages from here on; to be called before anything is allocated, since pages that are
/// huge already stay so.
pub(crate) fn keep_small() -> SmallPages {
    // A kernel that has no huge pages refuses both calls, and needs neither.
    let were_kept_small = transparent_huge_pages_are_disabled().unwrap_or(true);
    let _ = disable_transparent_huge_pages(true);
    SmallPages { were_kept_small }
}

impl SmallPages {
    /// For commands that hold much memory, and are faster with fewer pages.
    pub(crate) fn may_be_huge(self) {
        if !self.were_kept_small {
            let _ = disable_transparent_huge_pages(false);
        }
    }
}
