//! Options of AWS logins, and regions.

/// Choice of credentials and region, under the names of Amazon's login module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AwsOptions {
    /// Profile of the shared files; it has precedence over the role.
    pub profile: Option<String>,
    /// Role to assume with the credentials of the default chain.
    pub role_arn: Option<String>,
    /// Name of the session of that role.
    pub role_session_name: Option<String>,
    /// External id that the role requires.
    pub role_external_id: Option<String>,
    /// Region of the security token service; default: the region of the cluster.
    pub sts_region: Option<String>,
    /// Region of the cluster; default: from the names of the bootstrap servers.
    pub region: Option<String>,
}

/// Returns the region in the name of a broker of Amazon MSK, such as
/// `b-1.name.xyz.c2.kafka.eu-west-1.amazonaws.com:9098`.
pub(super) fn region_of(servers: &str) -> Option<String> {
    let mut hosts = servers.split(',').filter_map(|server| {
        let host = server
            .trim()
            .rsplit_once(':')
            .map_or(server, |(host, _)| host);
        let host = host.strip_suffix(".cn").unwrap_or(host);
        let parts: Vec<_> = host.strip_suffix(".amazonaws.com")?.split('.').collect();
        let (region, rest) = parts.split_last()?;
        let is_msk = rest
            .last()
            .is_some_and(|it| ["kafka", "kafka-serverless"].contains(it));
        is_msk.then(|| (*region).to_owned())
    });
    hosts.next()
}

/// Returns the domain of a region's services.
pub(super) fn domain(region: &str) -> &'static str {
    match region.starts_with("cn-") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    }
}
