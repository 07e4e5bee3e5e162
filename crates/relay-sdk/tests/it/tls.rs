//! Over TLS: something in front of the server ends the encryption, with a certificate of one's own making.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::{Error, Options, Relay, RootCertificates, delivered};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::sessions::{answering, ended};
use crate::support::{World, next};

/// An authority, and what it proves: that a server is `localhost`.
struct Authority {
    pem: String,
    proof: ServerConfig,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&server_key, &issuer).unwrap();
    let private = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let proof = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], private)
        .unwrap();
    Authority {
        pem: certificate.pem(),
        proof,
    }
}

/// Ends the encryption in front of a server; its port.
async fn in_front_of(server: SocketAddr, proof: ServerConfig) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(proof));
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // Who does not trust the certificate hangs up here.
                let Ok(mut near) = acceptor.accept(near).await else {
                    return;
                };
                let mut far = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    port
}

fn trusting(pem: &str) -> Options {
    Options {
        root_certificates: RootCertificates::from_pem(pem).unwrap(),
        ..Options::default()
    }
}

#[tokio::test]
async fn calls_listeners_and_sessions_work_over_tls() {
    let world = World::start().await;
    let Authority { pem, proof } = authority();
    let port = in_front_of(world.address, proof).await;
    let url = format!("https://localhost:{port}");
    let relay = Relay::with_options(&url, &world.key, trusting(&pem)).unwrap();
    let alice = relay.register("alice").await.unwrap();
    let bob = relay.register("bob").await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener("message.*", move |event| {
            let _ = tell.send(event.event_type);
            async {}
        })
        .await
        .unwrap();
    let (session, mut surfaced) = answering(&bob, |_, id| Ok(delivered(id)));
    let _session = bob.attach(session).await.unwrap();
    let sent = alice.send_message("@bob", "sealed").await.unwrap();
    assert_eq!(next("the event", &mut told).await, "message.created");
    assert_eq!(next("the message", &mut surfaced).await.0, "sealed");
    let id = sent.deliveries[0].delivery_id;
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
}

#[tokio::test]
async fn a_server_that_can_not_prove_who_it_is_is_told_nothing() {
    let world = World::start().await;
    let Authority { pem, proof } = authority();
    let port = in_front_of(world.address, proof).await;
    let url = format!("https://localhost:{port}");
    // Somebody whom nobody here knows; at once, since waiting does not help.
    let refused = Relay::open(&url, &world.key).await.map(drop).unwrap_err();
    let expected = "the server's certificate is not trusted: UnknownIssuer; if it is one of your own making, \
                    name the authority in `root_certificates`";
    assert_eq!(refused.to_string(), expected);
    assert!(!refused.is_retryable());
    // Another authority does not help, either, and the socket says the same.
    let relay = Relay::with_options(&url, &world.key, trusting(&authority().pem)).unwrap();
    let refused = relay.add_listener("*", |_| async {}).await.map(drop);
    assert!(matches!(refused, Err(Error::Untrusted(_))), "{refused:?}");
    // Known, but somebody else.
    let other = format!("https://127.0.0.1:{port}");
    let relay = Relay::with_options(&other, &world.key, trusting(&pem)).unwrap();
    let refused = relay.workspace().await.unwrap_err().to_string();
    assert!(refused.contains("127.0.0.1"), "{refused}");
    assert!(refused.contains("localhost"), "{refused}");
}

#[test]
fn what_is_no_certificate_is_refused() {
    let garbled = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in ["", "not PEM", garbled] {
        let refused = RootCertificates::from_pem(pem).unwrap_err().to_string();
        assert!(
            refused.starts_with("expected certificates as PEM: "),
            "{refused}"
        );
    }
}
