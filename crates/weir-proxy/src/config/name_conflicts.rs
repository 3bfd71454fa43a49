//! Server names that belong to two clusters of one address.

use super::ClusterConfig;

/// Returns why a cluster cannot use its names next to others.
pub(super) fn conflict_of_names(
    others: &[ClusterConfig],
    cluster: &ClusterConfig,
) -> Option<String> {
    let own = cluster.names.as_ref()?;
    let name = &cluster.name;
    if let Some(found) = own.ambiguous() {
        let reason = format!("sni.bootstrap has \"{found}\", which is also the name of a broker");
        return Some(format!("cluster \"{name}\": {reason}: change one"));
    }
    others.iter().find_map(|other| {
        let theirs = other.names.as_ref();
        let theirs = theirs.filter(|names| names.listen == own.listen)?;
        let shared = theirs.shared_with(own);
        let reason = if let Some(shared) = shared {
            format!("may have the same server name: {shared}: change sni of one")
        } else if theirs.is_default && own.is_default {
            "have both sni.default = true at one address: remove one".to_owned()
        } else if other.proxy_protocol != cluster.proxy_protocol {
            "share an address: set the same proxy_protocol and trusted".to_owned()
        } else {
            return None;
        };
        Some(format!(
            "clusters \"{}\" and \"{name}\" {reason}",
            other.name
        ))
    })
}
