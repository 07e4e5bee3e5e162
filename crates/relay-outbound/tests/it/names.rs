//! Names that change what they lead to, and targets that are allowed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use relay_outbound::{AllowList, Error, Limits, Outbound};

use crate::support::{Names, Server, outbound, post};

#[tokio::test]
async fn a_name_that_changes_between_check_and_call_changes_nothing() {
    // The same port at two addresses: the good one, which is allowed here, and the inside.
    let good = Server::at(
        "127.0.0.2:0",
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood",
    )
    .await;
    let address = format!("127.0.0.1:{}", good.port());
    let inside = Server::at(&address, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let names = Arc::new(Names::default());
    names.add("changes.test", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let allow = AllowList::new(["127.0.0.2"]).unwrap();
    let outbound = Outbound::with_resolver(names.clone(), allow, Limits::default());
    let url = format!("http://changes.test:{}/", good.port());

    let answer = outbound.call(post(&url)).await.unwrap();
    assert_eq!(answer.body, "good");
    assert_eq!(names.asked.load(Ordering::SeqCst), 1, "asked once per call");

    // From now on it leads inside, and a new call sees that.
    let refused = outbound.call(post(&url)).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");
    assert!(!refused.is_retryable());
    inside.assert_never_reached("a name that changed").await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in ["300", "301", "302", "303", "304", "305", "307", "308"] {
        let inside = Server::inside().await;
        let location = format!("http://127.0.0.1:{}/", inside.port());
        let answer = format!(
            "HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        );
        let door = Server::at("127.0.0.2:0", answer.leak()).await;
        let outbound = outbound(&["127.0.0.2"], Limits::default());
        let url = format!("http://127.0.0.2:{}/", door.port());
        let refused = outbound.call(post(&url)).await.unwrap_err();
        assert!(
            matches!(refused, Error::Redirect { .. }),
            "{status}: {refused}"
        );
        assert_eq!(door.reached(), 1);
        inside.assert_never_reached("a redirect").await;
    }
}

#[tokio::test]
async fn an_allowed_target_is_reached() {
    let inside = Server::inside().await;
    let port = inside.port();
    let cases = [
        ("127.0.0.1".to_owned(), "127.0.0.1"),
        (format!("127.0.0.1:{port}"), "127.0.0.1"),
        ("127.0.0.0/8".to_owned(), "127.0.0.1"),
        ("hooks.test".to_owned(), "hooks.test"),
        (format!("hooks.test:{port}"), "hooks.test"),
        ("127.0.0.0/30".to_owned(), "hooks.test"),
    ];
    let names = Arc::new(Names::default());
    names.add("hooks.test", &[&["127.0.0.1"]]);
    for (number, (allow, host)) in cases.into_iter().enumerate() {
        let allow = AllowList::new([&allow]).unwrap();
        let outbound = Outbound::with_resolver(names.clone(), allow, Limits::default());
        let url = format!("http://{host}:{port}/");
        outbound.check(&url).await.unwrap();
        let answer = outbound.call(post(&url)).await.unwrap();
        assert_eq!(
            (answer.status.as_u16(), &answer.body[..]),
            (200, &b"inside"[..])
        );
        assert_eq!(inside.reached(), number + 1);
    }
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_does_not_answer() {
    let inside = Server::inside().await;
    let names = Arc::new(Names::default());
    // Nobody listens at the first.
    names.add("two.test", &[&["127.0.0.3", "127.0.0.1"]]);
    let allow = AllowList::new(["two.test"]).unwrap();
    let outbound = Outbound::with_resolver(names, allow, Limits::default());
    let url = format!("http://two.test:{}/", inside.port());
    assert_eq!(outbound.call(post(&url)).await.unwrap().body, "inside");
}

#[tokio::test]
async fn a_name_without_address_is_an_error_that_may_pass() {
    let names = Arc::new(Names::default());
    names.add("empty.test", &[&[]]);
    let outbound = Outbound::with_resolver(names, AllowList::none(), Limits::default());
    for url in ["http://empty.test/", "http://unknown.test/"] {
        let failed = outbound.call(post(url)).await.unwrap_err();
        assert!(matches!(failed, Error::Resolve { .. }) && failed.is_retryable());
    }
}
