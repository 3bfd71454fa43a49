//! Ranges of client addresses.

use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A range that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{0}\" is not an address: write 10.1.2.3, 10.0.0.0/8, or * for any")]
pub struct AddressRangeError(String);

/// The addresses for which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressRange {
    /// Any address.
    Any,
    /// Addresses that agree with this one in the first bits.
    Network(IpAddr, u8),
}

impl AddressRange {
    /// Returns `true` if the address is in the range. IPv4 addresses inside IPv6 count as IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Network(network, bits) => match (network, address.to_canonical()) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    let unequal = network.to_bits() ^ address.to_bits();
                    unequal.leading_zeros() >= u32::from(bits)
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    let unequal = network.to_bits() ^ address.to_bits();
                    unequal.leading_zeros() >= u32::from(bits)
                }
                _ => false,
            },
        }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let wrong = || AddressRangeError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let address = address.to_canonical();
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().map_err(|_| wrong())?,
        };
        if bits > bits_max {
            return Err(wrong());
        }
        Ok(Self::Network(address, bits))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Network(address, bits) => {
                let bits_max = if address.is_ipv4() { 32 } else { 128 };
                if *bits == bits_max {
                    return write!(f, "{address}");
                }
                write!(f, "{address}/{bits}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_their_addresses() {
        let cases = [
            ("*", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "11.0.0.1", true),
            ("0.0.0.0/0", "::1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("::ffff:10.1.1.1", "10.1.1.1", true),
            ("2001:db8::/32", "2001:db8:1::5", true),
            ("2001:db8::/32", "2001:db9::5", false),
        ];
        for (range, address, wanted) in cases {
            let parsed: AddressRange = range.parse().expect("a range");
            let address = address.parse().expect("an address");
            assert_eq!(parsed.contains(address), wanted, "{range} {address}");
        }
        let printed = ["*", "10.1.2.3", "10.0.0.0/8", "2001:db8::/32", "::1"];
        for text in printed {
            let range: AddressRange = text.parse().expect("a range");
            assert_eq!(range.to_string(), text);
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "host",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "::/129",
        ] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }
}
