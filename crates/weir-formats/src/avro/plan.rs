//! Skip plans: instructions for finding the wanted values in the bytes of a record.

use std::sync::Arc;

use super::quick::QuickKind;
use super::schema::{Span, TypeId, TypeKind};
use crate::json::NodeId;

/// Position of a program in its plan.
pub(super) type ProgramId = u32;

/// Programs for the records of one schema and a set of wanted nodes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    /// Ranges of actions.
    pub(super) programs: Vec<Span>,
    /// Program for the whole record, `None` if nothing is wanted.
    pub(super) main: Option<ProgramId>,
    /// Programs of all union branches.
    pub(super) branches: Vec<ProgramId>,
    pub(super) arrays: Vec<ArrayPlan>,
    pub(super) maps: Vec<MapPlan>,
    /// `true` if the plan is incomplete because it would be too large.
    pub(super) is_too_large: bool,
}

/// A part of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Skips a number of bytes.
    SkipBytes(u32),
    /// Skips a number of integers.
    SkipVarints(u32),
    /// Skips a number of texts or byte strings.
    SkipTexts(u32),
    /// Skips a union of null and one other type. The `bool` is the index of the null branch, the
    /// kind that of the other branch.
    SkipNullable(TypeId, bool, QuickKind),
    /// Skips an array of this type; its items are integers.
    SkipVarintsArray(TypeId),
    /// Skips a value by its type.
    SkipValue(TypeId),
    /// Stores the position of a scalar and skips it.
    TakeScalar(NodeId, TypeKind),
    /// Stores the position of a record, array or map without skipping it.
    TakeComplex(NodeId, TypeId),
    /// Reads the branch of a union and runs its program, one of a range of [`Plan::branches`].
    EnterUnion(Span),
    /// Runs the plan of an array.
    EnterArray(u32),
    /// Runs the plan of a map.
    EnterMap(u32),
    /// Fails because types are nested too deeply.
    TooDeep,
}

/// Wanted elements of an array.
#[derive(Debug)]
pub(super) struct ArrayPlan {
    pub(super) item: TypeId,
    /// Programs by index, in ascending order.
    pub(super) elements: Vec<(u64, ProgramId)>,
    /// `true` if a wanted value follows the array, so it must be read to its end.
    pub(super) to_end: bool,
}

/// Wanted entries of a map.
#[derive(Debug)]
pub(super) struct MapPlan {
    pub(super) value: TypeId,
    /// Sorted by length of the key, then by its bytes, for a binary search.
    pub(super) entries: Vec<MapEntry>,
    /// `true` if a wanted value follows the map, so it must be read to its end.
    pub(super) to_end: bool,
}

/// A wanted entry of a map.
#[derive(Debug)]
pub(super) struct MapEntry {
    pub(super) key: Arc<str>,
    pub(super) node: NodeId,
    pub(super) program: ProgramId,
}

impl Plan {
    #[inline]
    pub(super) fn program(&self, id: ProgramId) -> &[Action] {
        self.programs[id as usize].of(&self.actions)
    }
}

impl MapPlan {
    /// Returns the entry of a key.
    #[inline]
    pub(super) fn entry(&self, key: &[u8]) -> Option<&MapEntry> {
        /// Number of entries up to which a linear search is faster.
        const LINEAR_MAX: usize = 16;
        if self.entries.len() <= LINEAR_MAX {
            return self
                .entries
                .iter()
                .find(|entry| entry.key.as_bytes() == key);
        }
        let order = |entry: &MapEntry| {
            let own = entry.key.as_bytes();
            own.len().cmp(&key.len()).then_with(|| own.cmp(key))
        };
        let found = self.entries.binary_search_by(order);
        found.ok().map(|i| &self.entries[i])
    }
}
