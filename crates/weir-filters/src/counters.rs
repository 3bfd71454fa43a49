//! Counters of filter work, each with its metric (docs/metrics.md).

use weir_net::counters;

counters! {
    /// Counters of filter work.
    pub struct FilterCounts
    batches "weir_proxy_filter_batches" Counter "Record batches that filters read."
    batches_edited "weir_proxy_filter_batches_edited" Counter "Of these, changed in place."
    batches_rebuilt "weir_proxy_filter_batches_rebuilt" Counter "Of these, rebuilt."
    records "weir_proxy_filter_records" Counter "Records that filters read."
    values_undecodable "weir_proxy_filter_undecodable_values" Counter
        "Values that a filter could not decode."
    partitions_rejected "weir_proxy_filter_rejected_partitions" Counter
        "Partitions of produce requests that filters rejected."
    partitions_withheld "weir_proxy_filter_withheld_partitions" Counter
        "Partitions of fetch responses withheld because they could not be decoded."
    partitions_cut "weir_proxy_filter_cut" Counter
        "Partitions of fetch responses that end early; the consumer fetches the rest next."
    limited "weir_proxy_filter_limited" Counter
        "Partitions rejected, withheld or cut because a limit on filter work was reached."
}
