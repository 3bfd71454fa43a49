//! MachineLimits of machines, and what processes need of them.

use std::fs;

use serde::Deserialize;
use weir_load::clients::descriptors_allowed;

/// MachineLimits of one machine; `None`: unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineLimits {
    /// Open file descriptors of one process (hard limit).
    pub file_descriptors: Option<u64>,
    /// Local ports for connections to one address.
    pub ports: Option<u64>,
    /// Logical processors.
    pub cores: Option<f64>,
    /// Bandwidth of the network in each direction, in Mbit/s.
    pub mbit_per_s: Option<f64>,
}

impl MachineLimits {
    /// Returns the limits of this machine. Its bandwidth is unknown.
    pub fn of_this_machine() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            file_descriptors: Some(descriptors_allowed()),
            ports: Some(local_ports()),
            cores: Some(cores as f64),
            mbit_per_s: None,
        }
    }

    /// Returns the limit of a resource.
    pub fn of(&self, resource: LimitedResource) -> Option<f64> {
        match resource {
            LimitedResource::FileDescriptors => self.file_descriptors.map(|count| count as f64),
            LimitedResource::Ports => self.ports.map(|count| count as f64),
            LimitedResource::Cores => self.cores,
            LimitedResource::Received | LimitedResource::Sent => self.mbit_per_s,
        }
    }

    /// Returns the name of a limit that is not above 0.
    pub(crate) fn invalid(&self) -> Option<&'static str> {
        let is_wrong =
            |value: Option<f64>| value.is_some_and(|value| value.is_nan() || value <= 0.0);
        match () {
            () if self.file_descriptors == Some(0) => Some("file_descriptors"),
            () if self.ports == Some(0) => Some("ports"),
            () if is_wrong(self.cores) => Some("cores"),
            () if is_wrong(self.mbit_per_s) => Some("mbit_per_s"),
            () => None,
        }
    }
}

/// Returns the number of local ports available for connections to one address.
pub fn local_ports() -> u64 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ends = range.split_whitespace().map_while(|end| end.parse().ok());
    match ends.collect::<Vec<u64>>()[..] {
        [first, last] if first <= last => last - first + 1,
        _ => u64::from(u16::MAX),
    }
}

/// Resource that can limit a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedResource {
    /// Open file descriptors of one process.
    FileDescriptors,
    /// Local ports for connections to one address.
    Ports,
    /// Logical processors.
    Cores,
    /// Bandwidth from the network, in Mbit/s.
    Received,
    /// Bandwidth to the network, in Mbit/s.
    Sent,
}

impl LimitedResource {
    /// All resources, in the order of tables.
    pub const ALL: [Self; 5] = [
        Self::FileDescriptors,
        Self::Ports,
        Self::Cores,
        Self::Received,
        Self::Sent,
    ];

    /// Returns the name in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::FileDescriptors => "file descriptors",
            Self::Ports => "local ports",
            Self::Cores => "cores",
            Self::Received => "Mbit/s received",
            Self::Sent => "Mbit/s sent",
        }
    }
}

/// Resources that processes need of one machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Needs {
    /// Open file descriptors of the process that needs most of them.
    pub file_descriptors: u64,
    /// Local ports for connections to one address.
    pub ports: u64,
    /// Busy logical processors; `None`: not estimated.
    pub cores: Option<f64>,
    /// Bandwidth from the network, in Mbit/s.
    pub received_mbit_per_s: f64,
    /// Bandwidth to the network, in Mbit/s.
    pub sent_mbit_per_s: f64,
}

/// Limit that is too low.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExceededLimit {
    /// Resource with the limit.
    pub resource: LimitedResource,
    /// Amount needed.
    pub needed: f64,
    /// Amount available.
    pub limit: f64,
}

impl Needs {
    /// Adds the needs of other processes on the same machine at the same time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            file_descriptors: self.file_descriptors.max(other.file_descriptors),
            ports: self.ports + other.ports,
            cores: self.cores.zip(other.cores).map(|(a, b)| a + b),
            received_mbit_per_s: self.received_mbit_per_s + other.received_mbit_per_s,
            sent_mbit_per_s: self.sent_mbit_per_s + other.sent_mbit_per_s,
        }
    }

    /// Returns the larger of two needs at different times, for each resource.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            file_descriptors: self.file_descriptors.max(other.file_descriptors),
            ports: self.ports.max(other.ports),
            // `None` is less than any number.
            cores: match self.cores > other.cores {
                true => self.cores,
                false => other.cores,
            },
            received_mbit_per_s: self.received_mbit_per_s.max(other.received_mbit_per_s),
            sent_mbit_per_s: self.sent_mbit_per_s.max(other.sent_mbit_per_s),
        }
    }

    /// Returns the amount of a resource; `None` if it is not estimated.
    pub fn of(&self, resource: LimitedResource) -> Option<f64> {
        match resource {
            LimitedResource::FileDescriptors => Some(self.file_descriptors as f64),
            LimitedResource::Ports => Some(self.ports as f64),
            LimitedResource::Cores => self.cores,
            LimitedResource::Received => Some(self.received_mbit_per_s),
            LimitedResource::Sent => Some(self.sent_mbit_per_s),
        }
    }

    /// Returns the limits that are lower than these needs. Unknown limits are not exceeded.
    pub fn exceeded(&self, limits: &MachineLimits) -> impl Iterator<Item = ExceededLimit> {
        LimitedResource::ALL.into_iter().filter_map(|resource| {
            let (needed, limit) = (self.of(resource)?, limits.of(resource)?);
            (needed > limit).then_some(ExceededLimit {
                resource,
                needed,
                limit,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_limits() {
        let limits = MachineLimits::of_this_machine();
        assert!(limits.cores >= Some(1.0) && limits.file_descriptors > Some(0));
        assert!((1..=65_536).contains(&local_ports()));
        assert_eq!((limits.mbit_per_s, limits.invalid()), (None, None));
    }

    #[test]
    fn needs_of_one_machine_add_up() {
        let needs = Needs {
            file_descriptors: 100,
            ports: 50,
            cores: Some(0.5),
            received_mbit_per_s: 10.0,
            sent_mbit_per_s: 1.0,
        };
        let both = needs.and(needs);
        assert_eq!((both.file_descriptors, both.ports), (100, 100));
        assert_eq!((both.cores, both.received_mbit_per_s), (Some(1.0), 20.0));
        let unknown = Needs {
            cores: None,
            ..needs
        };
        assert_eq!(both.and(unknown).cores, None);
        assert_eq!(unknown.max(both), both);
        assert_eq!(both.max(unknown), both);
    }

    #[test]
    fn only_known_limits_are_exceeded() {
        let needs = Needs {
            file_descriptors: 100,
            ports: 100,
            cores: Some(2.0),
            sent_mbit_per_s: 900.0,
            ..Needs::default()
        };
        assert_eq!(needs.exceeded(&MachineLimits::default()).count(), 0);
        let limits = MachineLimits {
            file_descriptors: Some(100),
            ports: Some(99),
            cores: None,
            mbit_per_s: Some(899.0),
        };
        let exceeded: Vec<_> = needs.exceeded(&limits).collect();
        let resources: Vec<_> = exceeded.iter().map(|it| it.resource).collect();
        assert_eq!(resources, [LimitedResource::Ports, LimitedResource::Sent]);
        assert_eq!((exceeded[0].needed, exceeded[0].limit), (100.0, 99.0));
    }
}
