//! Which addresses are out on the internet, and which lead inside.
//!
//! IPv4 is everything but the ranges that are named here. IPv6 is the other way round: only the space that
//! is given out to the internet (2000::/3), less the ranges in it that mean something else. So a form
//! that nobody has thought of is refused. Addresses that carry another address inside (mapped, NAT64, 6to4,
//! Teredo, ISATAP) are refused whatever they carry: they reach places that the check can't see.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of IPv4 addresses that a caller from outside must not reach.
type Range4 = (Ipv4Addr, u32, &'static str);

/// The same for IPv6.
type Range6 = (Ipv6Addr, u32, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(a: u16, b: u16, c: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)
}

/// What is not the internet, by the registries of special addresses.
const FORBIDDEN_V4: &[Range4] = &[
    (v4(0, 0, 0, 0), 8, "this network"),
    (v4(10, 0, 0, 0), 8, "private"),
    (v4(100, 64, 0, 0), 10, "carrier network"),
    (v4(127, 0, 0, 0), 8, "loopback"),
    (v4(169, 254, 0, 0), 16, "link-local, cloud metadata"),
    (v4(172, 16, 0, 0), 12, "private"),
    (v4(192, 0, 0, 0), 24, "protocol assignments"),
    (v4(192, 0, 2, 0), 24, "documentation"),
    (v4(192, 31, 196, 0), 24, "AS112"),
    (v4(192, 52, 193, 0), 24, "multicast tunnels"),
    (v4(192, 88, 99, 0), 24, "6to4 relays"),
    (v4(192, 168, 0, 0), 16, "private"),
    (v4(192, 175, 48, 0), 24, "AS112"),
    (v4(198, 18, 0, 0), 15, "benchmarking"),
    (v4(198, 51, 100, 0), 24, "documentation"),
    (v4(203, 0, 113, 0), 24, "documentation"),
    // An address like any other, but inside one cloud it is the machine's own agent.
    (v4(168, 63, 129, 16), 32, "cloud metadata"),
    (v4(224, 0, 0, 0), 4, "multicast"),
    (v4(240, 0, 0, 0), 4, "reserved, broadcast"),
];

/// What is given out to the internet.
const GLOBAL_V6: (Ipv6Addr, u32) = (v6(0x2000, 0, 0), 3);

/// What in it means something else.
const FORBIDDEN_V6: &[Range6] = &[
    (v6(0x2001, 0, 0), 32, "Teredo"),
    (v6(0x2001, 0, 0), 23, "protocol assignments, benchmarking"),
    (v6(0x2001, 0x0db8, 0), 32, "documentation"),
    (v6(0x2002, 0, 0), 16, "6to4"),
    (v6(0x2620, 0x004f, 0x8000), 48, "AS112"),
    (v6(0x3fff, 0, 0), 20, "documentation"),
];

/// The names of what lies outside the global space, for errors that say more than "not global".
const NAMED_V6: &[Range6] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0),
        96,
        "IPv4-mapped",
    ),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible"),
    (v6(0x0064, 0xff9b, 0), 32, "NAT64"),
    (v6(0x0100, 0, 0), 64, "discard"),
    (v6(0x5f00, 0, 0), 16, "segment routing"),
    (v6(0xfc00, 0, 0), 7, "unique local, cloud metadata"),
    (v6(0xfe80, 0, 0), 10, "link-local"),
    (v6(0xfec0, 0, 0), 10, "site-local"),
    (v6(0xff00, 0, 0), 8, "multicast"),
];

/// Decides whether an address is out on the internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    forbidden_range(address).is_none()
}

/// Names the range that keeps an address from being called; nothing for public ones.
#[must_use]
pub fn forbidden_range(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => forbidden_v6(address),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    let mut ranges = FORBIDDEN_V4.iter();
    let range = ranges.find(|(network, bits, _)| in_v4(address, *network, *bits));
    range.map(|(_, _, name)| *name)
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    let named = |ranges: &'static [Range6]| {
        let mut ranges = ranges.iter();
        let range = ranges.find(|(network, bits, _)| in_v6(address, *network, *bits));
        range.map(|(_, _, name)| *name)
    };
    if !in_v6(address, GLOBAL_V6.0, GLOBAL_V6.1) {
        return Some(named(NAMED_V6).unwrap_or("not given out to the internet"));
    }
    if is_isatap(address) {
        return Some("ISATAP");
    }
    named(FORBIDDEN_V6)
}

/// An IPv4 address inside the last half of any network, reached by a tunnel of the local site.
const fn is_isatap(address: Ipv6Addr) -> bool {
    let [_, _, _, _, flags, marker, _, _] = address.segments();
    marker == 0x5efe && (flags == 0 || flags == 0x0200)
}

/// Whether an address lies in a network of this many leading bits.
pub(crate) const fn in_v4(address: Ipv4Addr, network: Ipv4Addr, bits: u32) -> bool {
    let mask = match bits {
        0 => 0,
        bits => u32::MAX << (32 - bits),
    };
    address.to_bits() & mask == network.to_bits() & mask
}

/// Whether an address lies in a network of this many leading bits.
pub(crate) const fn in_v6(address: Ipv6Addr, network: Ipv6Addr, bits: u32) -> bool {
    let mask = match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits),
    };
    address.to_bits() & mask == network.to_bits() & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
            "2003::1",
            "3ffe::1",
            "2a00::5efe:1",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn everything_else_has_a_name() {
        let inside = [
            ("0.0.0.0", "this network"),
            ("0.1.2.3", "this network"),
            ("10.0.0.1", "private"),
            ("10.255.255.255", "private"),
            ("100.64.0.1", "carrier network"),
            ("100.100.100.200", "carrier network"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("168.63.129.16", "cloud metadata"),
            ("169.254.0.1", "link-local, cloud metadata"),
            ("169.254.169.254", "link-local, cloud metadata"),
            ("169.254.170.2", "link-local, cloud metadata"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.192", "protocol assignments"),
            ("192.0.2.1", "documentation"),
            ("192.31.196.1", "AS112"),
            ("192.52.193.1", "multicast tunnels"),
            ("192.88.99.1", "6to4 relays"),
            ("192.168.1.1", "private"),
            ("192.175.48.1", "AS112"),
            ("198.18.0.1", "benchmarking"),
            ("198.19.255.255", "benchmarking"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.1", "documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved, broadcast"),
            ("255.255.255.255", "reserved, broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::127.0.0.1", "IPv4-compatible"),
            ("::8.8.8.8", "IPv4-compatible"),
            ("::ffff:127.0.0.1", "IPv4-mapped"),
            ("::ffff:8.8.8.8", "IPv4-mapped"),
            ("::ffff:0:127.0.0.1", "not given out to the internet"),
            ("64:ff9b::7f00:1", "NAT64"),
            ("64:ff9b::808:808", "NAT64"),
            ("64:ff9b:1::a00:1", "NAT64"),
            ("100::1", "discard"),
            ("1fff::1", "not given out to the internet"),
            ("2001::1", "Teredo"),
            ("2001:0:7f00:1::", "Teredo"),
            ("2001:2::1", "protocol assignments, benchmarking"),
            ("2001:10::1", "protocol assignments, benchmarking"),
            ("2001:1ff::1", "protocol assignments, benchmarking"),
            ("2001:db8::1", "documentation"),
            ("2002:7f00:1::", "6to4"),
            ("2002:a00:1::", "6to4"),
            ("2620:4f:8000::1", "AS112"),
            ("2a00::5efe:7f00:1", "ISATAP"),
            ("2a00::200:5efe:7f00:1", "ISATAP"),
            ("3fff::1", "documentation"),
            ("4000::1", "not given out to the internet"),
            ("5f00::1", "segment routing"),
            ("fc00::1", "unique local, cloud metadata"),
            ("fd00:ec2::254", "unique local, cloud metadata"),
            ("fe80::1", "link-local"),
            ("fe80::a9fe:a9fe", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
        ];
        for (address, name) in inside {
            let found = forbidden_range(address.parse().unwrap());
            assert_eq!(found, Some(name), "{address}");
        }
    }
}
