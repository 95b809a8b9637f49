//! Whether an address belongs to the public internet. An address of this machine or of its network must not be
//! reached by a URL that a model has read somewhere: behind it are services that trust whoever is inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether this is an address of a single host in the public internet.
///
/// Source: the special-purpose registries of RFC 6890.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = match (a, b, c) {
        // This network, loopback, multicast and everything that is reserved, with broadcast.
        (0 | 127 | 224.., ..) => true,
        // Addresses that a provider shares among its customers.
        (100, 64..=127, _) => true,
        // Protocol assignments, the anycast of 6to4, and AS112.
        (192, 0, 0) | (192, 88, 99) | (192, 31, 196) | (192, 52, 193) | (192, 175, 48) => true,
        // Benchmarks.
        (198, 18 | 19, _) => true,
        _ => false,
    };
    !(is_special || ip.is_private() || ip.is_link_local() || ip.is_documentation())
}

/// Only 2000::/3 is assigned to hosts of the internet. Parts of it contain an IPv4 address, which may be any.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    match ip.segments() {
        // Protocol assignments, such as Teredo, and documentation.
        [0x2001, 0..=0x1FF | 0xDB8, ..] => false,
        // 6to4.
        [0x2002, ..] => false,
        // Documentation (RFC 9637).
        [0x3FFF, 0..=0xFFF, ..] => false,
        [first, ..] => first & 0xE000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for public in ["1.1.1.1", "100.63.0.1", "172.32.0.1", "203.0.114.1", "2606:4700::1111"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:8.8.8.8",
            "::8.8.8.8",
            "64:ff9b::808:808",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
