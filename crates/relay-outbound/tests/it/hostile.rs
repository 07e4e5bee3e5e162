//! A table of ways to the inside, none of which gets there.

use std::sync::Arc;

use relay_outbound::{AllowList, Error, Limits, Outbound};

use crate::support::{Names, Server, outbound, post};

/// URLs in which `PORT` is the port of a server on this machine.
const HOSTILE: &[&str] = &[
    // This machine, as it is usually written.
    "http://127.0.0.1:PORT/",
    "https://127.0.0.1:PORT/",
    "http://127.0.0.2:PORT/",
    "http://127.255.255.254:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://0.0.0.0:PORT/",
    "http://[::1]:PORT/",
    "http://[::]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]:PORT/",
    // In decimal, octal, hexadecimal and short forms.
    "http://2130706433:PORT/",
    "http://017700000001:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7F.0x0.0x0.0x1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0177.0000.0000.0001:PORT/",
    "http://127.0.0.01:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://127.0x1:PORT/",
    "http://0:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://4294967297:PORT/",
    "http://383.0.0.1:PORT/",
    // Inside of IPv6.
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[::ffff:0:127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[64:ff9b:1::7f00:1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:7f00:1::]:PORT/",
    "http://[2a00::5efe:127.0.0.1]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fe80::1%25lo]:PORT/",
    "http://[fec0::1]:PORT/",
    "http://[fc00::1]:PORT/",
    "http://[ff02::1]:PORT/",
    "http://[100::1]:PORT/",
    // Private networks and addresses for other purposes.
    "http://10.0.0.1:PORT/",
    "http://172.16.0.1:PORT/",
    "http://192.168.0.1:PORT/",
    "http://100.64.0.1:PORT/",
    "http://192.0.2.1:PORT/",
    "http://198.18.0.1:PORT/",
    "http://198.51.100.1:PORT/",
    "http://203.0.113.1:PORT/",
    "http://224.0.0.1:PORT/",
    "http://255.255.255.255:PORT/",
    "http://240.0.0.1:PORT/",
    // What clouds tell a machine about itself.
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xA9FEA9FE/latest/meta-data/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://100.100.100.200/latest/meta-data/",
    "http://192.0.0.192/opc/v1/instance/",
    "http://168.63.129.16/machine",
    // Credentials, and hosts that only look like another.
    "http://user@127.0.0.1:PORT/",
    "http://user:password@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http://example.com:80@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT#@example.com/",
    "http://127.0.0.1:PORT\\@example.com/",
    "http://example.com\\@127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "http://127.0.0.1:PORT\t/",
    "http://127.0.0.1:PORT\r\nHost: example.com\r\n\r\n",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127.0.0.1%2f@example.com:PORT/",
    "http://①②⑦.⓪.⓪.①:PORT/",
    "http://127。0。0。1:PORT/",
    // Other schemes.
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_GET%20/",
    "dict://127.0.0.1:PORT/x",
    "ldap://127.0.0.1:PORT/",
    "unix:///var/run/docker.sock",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
];

/// Names and what they resolve to.
const NAMES: &[(&str, &[&str])] = &[
    ("loopback.test", &["127.0.0.1"]),
    ("loopback6.test", &["::1"]),
    ("mapped.test", &["::ffff:127.0.0.1"]),
    ("compatible.test", &["::127.0.0.1"]),
    ("nat64.test", &["64:ff9b::7f00:1"]),
    ("6to4.test", &["2002:7f00:1::"]),
    ("unspecified.test", &["0.0.0.0"]),
    ("unspecified6.test", &["::"]),
    ("private.test", &["10.0.0.1"]),
    ("metadata.google.internal", &["169.254.169.254"]),
    // One good address does not make up for a bad one, in whatever order they come.
    ("first-good.test", &["8.8.8.8", "127.0.0.1"]),
    ("first-bad.test", &["127.0.0.1", "8.8.8.8"]),
    ("mixed6.test", &["2606:4700::1111", "::1"]),
];

#[tokio::test]
async fn no_hostile_url_reaches_the_inside() {
    assert!(HOSTILE.len() >= 60);
    let inside = Server::inside().await;
    let outbound = outbound(&[], Limits::default());
    for url in HOSTILE {
        let url = url.replace("PORT", &inside.port().to_string());
        let refused = outbound.call(post(&url)).await.unwrap_err();
        let by_guard = matches!(refused, Error::Url(_) | Error::Forbidden { .. });
        // The one name in the table that only the system may or may not know.
        let by_name = matches!(refused, Error::Resolve { .. }) && url.contains("localhost");
        assert!(by_guard || by_name, "{url}: {refused}");
        assert!(outbound.check(&url).await.is_err(), "{url}");
    }
    inside.assert_never_reached("a hostile URL").await;
}

#[tokio::test]
async fn no_name_leads_to_the_inside() {
    let inside = Server::inside().await;
    let names = Arc::new(Names::default());
    for (name, addresses) in NAMES {
        names.add(name, &[addresses]);
    }
    let outbound = Outbound::with_resolver(names, AllowList::none(), Limits::default());
    for (name, _) in NAMES {
        let url = format!("http://{name}:{}/", inside.port());
        let refused = outbound.call(post(&url)).await.unwrap_err();
        assert!(
            matches!(refused, Error::Forbidden { .. }),
            "{name}: {refused}"
        );
    }
    inside.assert_never_reached("a name").await;
}

#[tokio::test]
async fn an_allowed_network_opens_no_other_form_of_its_addresses() {
    let inside = Server::inside().await;
    let outbound = outbound(&["10.0.0.0/8", "127.0.0.9"], Limits::default());
    for host in ["127.0.0.1", "[::ffff:127.0.0.9]", "[::1]", "localhost"] {
        let url = format!("http://{host}:{}/", inside.port());
        assert!(outbound.call(post(&url)).await.is_err(), "{host}");
    }
    inside
        .assert_never_reached("a neighbour of what is allowed")
        .await;
}
