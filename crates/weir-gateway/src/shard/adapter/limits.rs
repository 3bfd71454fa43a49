//! Limits of the adapter, combined with those of requests and rules.

use weir_adapter::decision::{AdapterLimits, RequestedLimits};
use weir_fanout::SessionKey;
use weir_identity::ItemMode;
use weir_tlcp::request::{Add, Bandwidth, BufferSize, Frequency, Mode, Snapshot};

use crate::shard::clients::Clients;

/// Returns the limits of a request. The frequency is not among them: a client may raise it later,
/// up to the adapter's limit.
pub(super) fn requested(add: &Add<'_>) -> RequestedLimits {
    let buffer_size = match add.requested_buffer_size {
        Some(BufferSize::Limited(most)) => Some(most),
        Some(BufferSize::Unlimited) | None => None,
    };
    RequestedLimits {
        mode: item_mode(add.mode),
        // Frequencies do not apply to mode RAW.
        unfiltered: add.requested_max_frequency == Frequency::Unfiltered && add.mode != Mode::Raw,
        frequency_max: None,
        buffer_size,
        snapshot_length: match add.snapshot {
            Snapshot::Length(length) => Some(length),
            Snapshot::No | Snapshot::Yes => None,
        },
    }
}

fn item_mode(mode: Mode) -> ItemMode {
    match mode {
        Mode::Raw => ItemMode::Raw,
        Mode::Merge => ItemMode::Merge,
        Mode::Distinct => ItemMode::Distinct,
        Mode::Command => ItemMode::Command,
    }
}

/// Restricts a request.
pub(super) fn restrict(add: &mut Add<'_>, limits: &AdapterLimits) {
    if let Some(most) = limits.frequency_max.filter(|_| add.mode != Mode::Raw) {
        add.requested_max_frequency = Frequency::PerSecond(match add.requested_max_frequency {
            Frequency::PerSecond(wanted) => wanted.min(most),
            Frequency::Unlimited | Frequency::Unfiltered => most,
        });
    }
    let has_small_default = add.mode == Mode::Merge && add.requested_buffer_size.is_none();
    if let Some(most) = limits.buffer_size.filter(|_| !has_small_default) {
        add.requested_buffer_size = Some(BufferSize::Limited(most));
    }
    // The adapter decides about the snapshot length of this mode only.
    if add.mode == Mode::Distinct && add.snapshot != Snapshot::No {
        add.snapshot = match limits.snapshot_length {
            Some(0) => Snapshot::No,
            Some(most) => Snapshot::Length(most),
            None => add.snapshot,
        };
    }
}

/// Returns a bandwidth of at most `most`; `None` stands for no request.
pub(super) fn bandwidth(wanted: Option<Bandwidth>, most: Option<f64>) -> Option<Bandwidth> {
    let Some(most) = most else { return wanted };
    Some(Bandwidth::Kbps(match wanted {
        Some(Bandwidth::Kbps(wanted)) => wanted.min(most),
        Some(Bandwidth::Unlimited) | None => most,
    }))
}

impl Clients {
    /// Returns a requested change of a session's bandwidth within the adapter's limit.
    pub(in crate::shard) fn adapter_bandwidth(
        &self,
        key: SessionKey,
        wanted: Option<Bandwidth>,
    ) -> Option<Bandwidth> {
        let adapter = self.adapter.as_ref();
        let session = adapter.and_then(|adapter| adapter.session(key));
        let most = session.and_then(|session| session.bandwidth_max_kbps);
        bandwidth(wanted, most.filter(|_| wanted.is_some()))
    }

    /// Returns the adapter's frequency limit of a subscription.
    pub(in crate::shard) fn adapter_frequency(&self, key: SessionKey, sub_id: u32) -> Option<f64> {
        let adapter = self.adapter.as_ref()?;
        adapter.sessions.frequency_max(key.to_bits(), sub_id)
    }
}
