//! `relay webhook`: the whole loop from an event to the receiver that verifies it, and messages that come in.

use relay_outbound::{AllowList, Answer, Limits, Outbound, Request};
use serde_json::{Value, json};

use crate::support::{Desk, Running, Setup, masked, soon};

const SECRET: &str = "a secret that only the two know";

/// A server that may call this machine, and ada.
async fn desk() -> Desk {
    let mut setup = Setup::new().with("RELAY_OUTBOUND_ALLOW", "127.0.0.1");
    let server = setup.start().await;
    let desk = Desk { setup, server };
    desk.register(&["ada"]).await;
    desk
}

async fn say(desk: &Desk, text: &str) {
    desk.ok(&["send", "#general", text, "--as", "ada", "--no-wait"])
        .await;
}

/// Starts to listen, for programs; and where.
async fn listen(desk: &Desk, arguments: &[&str]) -> (Running, String) {
    let arguments = [&["webhook", "listen", "--json"], arguments].concat();
    let mut listening = desk.start(&arguments);
    let begun = arrived(&mut listening).await;
    let url = begun["listening"].as_str().unwrap().to_owned();
    (listening, url)
}

async fn arrived(listening: &mut Running) -> Value {
    serde_json::from_str(&listening.unmasked_line().await).unwrap()
}

/// Makes a webhook, and says its id.
async fn create(desk: &Desk, url: &str) -> String {
    let create = ["webhook", "create", url, "--event", "message.created"];
    let secret = ["--secret", SECRET];
    let created = desk.json(&[&create[..], &secret].concat()).await;
    created["id"].as_str().unwrap().to_owned()
}

/// Waits until the newest call of a webhook is like this.
async fn attempt(desk: &Desk, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let waiting = async {
        loop {
            let attempts = desk.json(&["webhook", "attempts", id]).await;
            if wanted(&attempts["items"][0]) {
                return attempts["items"][0].clone();
            }
        }
    };
    soon("an attempt", waiting).await
}

async fn post(url: &str, token: &str, body: &Value) -> Answer {
    let allow = AllowList::new(["127.0.0.1"]).unwrap();
    let mut request = Request::post_json(url, body.to_string());
    let credential = format!("Bearer {token}").parse().unwrap();
    request.headers.insert("authorization", credential);
    let outbound = Outbound::new(allow, Limits::default());
    outbound.call(request).await.unwrap()
}

#[tokio::test]
async fn an_event_arrives_is_verified_and_accounted_for() {
    let desk = desk().await;
    let listening = ["webhook", "listen", "--secret", SECRET, "--count", "1"];
    let mut listening = desk.start(&listening);
    let begun = listening.unmasked_line().await;
    let url = begun.strip_prefix("listening at ").unwrap();
    let create = ["webhook", "create", url, "--event", "message.created"];
    let said = desk
        .ok(&[&create[..], &["--secret", SECRET]].concat())
        .await;
    let expected = format!(
        "webhook  ID\ncalls    {url}\nfor      message.created\nfollow it: relay webhook attempts ID\n"
    );
    assert_eq!(said, expected);
    let listed = desk.json(&["webhook", "list"]).await;
    let id = listed["items"][0]["id"].as_str().unwrap();
    let quiet = desk.ok(&["webhook", "attempts", id]).await;
    assert_eq!(quiet, "it was not called yet\n");

    say(&desk, "one\u{1b}[2J two").await;
    let line = listening.line().await;
    assert!(line.starts_with("204 signed "), "{line}");
    assert!(
        line.ends_with("message.created        @ada in #general: one[2J two  ID"),
        "{line}"
    );
    // It was asked for one call; that is answered before it ends.
    assert_eq!(listening.end().await, (0, String::new()));
    let attempt = attempt(&desk, id, |attempt| attempt["status"] == 204).await;
    assert_eq!(attempt["attempt"], 1);
    let told = desk.ok(&["webhook", "attempts", id]).await;
    let mut lines = told.lines();
    let heading = lines.next().unwrap();
    assert!(heading.starts_with("at        answer  took"), "{told}");
    let line = lines.next().unwrap();
    assert!(line.contains("  204     TIME"), "{told}");
    assert!(line.ends_with("message.created"), "{told}");
    let shown = desk.ok(&["webhook", "show", id]).await;
    assert!(
        shown.contains("\nstate    active\nwaiting  0 events\narrived  TIME ago"),
        "{shown}"
    );
}

#[tokio::test]
async fn what_is_not_signed_or_by_somebody_else_is_refused() {
    let desk = desk().await;
    let other = ["--secret", "the secret of somebody else"];
    let (mut listening, url) = listen(&desk, &other).await;
    let id = create(&desk, &url).await;
    say(&desk, "hello").await;
    let call = arrived(&mut listening).await;
    let expected =
        json!({ "answered": 401, "signature": "wrong", "error": "no signature is right" });
    assert_eq!(call, expected);
    let attempt = attempt(&desk, &id, |attempt| attempt["status"] == 401).await;
    assert!(attempt["nextAttemptAt"].is_string());
    let told = desk.ok(&["webhook", "attempts", &id]).await;
    assert!(
        told.contains("the answer's status is 401, again at "),
        "{told}"
    );
    let shown = desk.ok(&["webhook", "show", &id]).await;
    assert!(
        shown.contains(
            "\nwaiting  1 event\narrived  nothing yet\nfailed   the answer's status is 401\n"
        ),
        "{shown}"
    );

    let answer = post(&url, "", &json!({ "type": "message.created" })).await;
    assert_eq!(answer.status, 401);
    let call = arrived(&mut listening).await;
    assert_eq!(call["signature"], "missing");
    // What is said to people.
    let (refusing, words) = (
        [&["webhook", "listen"][..], &other].concat(),
        "401 refused, not signed: expected the header webhook-id, found none",
    );
    let mut listening = desk.start(&refusing);
    let begun = listening.unmasked_line().await;
    let url = begun.strip_prefix("listening at ").unwrap();
    assert_eq!(post(url, "", &json!({})).await.status, 401);
    assert_eq!(listening.line().await, words);
    // Without a secret nothing is checked; what is no event is refused all the same.
    let mut listening = desk.start(&["webhook", "listen", "--count", "1"]);
    let begun = listening.unmasked_line().await;
    let url = begun.strip_prefix("listening at ").unwrap();
    assert_eq!(post(url, "", &json!({})).await.status, 400);
    let line = listening.line().await;
    assert!(
        line.starts_with("400 refused, no event: expected an event: "),
        "{line}"
    );
    let (code, said) = listening.end().await;
    assert_eq!(code, 0);
    assert!(said.starts_with("signatures are not checked: "), "{said}");
}

#[tokio::test]
async fn what_a_receiver_missed_comes_when_it_is_back() {
    let desk = desk().await;
    let secret = ["--secret", SECRET];
    let (mut listening, url) = listen(&desk, &secret).await;
    let id = create(&desk, &url).await;
    say(&desk, "one").await;
    assert_eq!(
        arrived(&mut listening).await["event"]["message"]["text"],
        "one"
    );
    // It is printed before it is answered; whoever dies in between gets it once more.
    attempt(&desk, &id, |attempt| attempt["status"] == 204).await;
    listening.child.kill().await.unwrap();
    say(&desk, "two").await;
    attempt(&desk, &id, |attempt| attempt["error"].is_string()).await;
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap();
    let (mut listening, _) = listen(&desk, &[&secret[..], &["--port", port]].concat()).await;
    // The first that arrives lets the one go that waits.
    say(&desk, "three").await;
    let mut texts = Vec::new();
    for _ in 0..2 {
        let call = arrived(&mut listening).await;
        assert_eq!(call["signature"], "valid");
        texts.push(call["event"]["message"]["text"].clone());
    }
    texts.sort_by_key(Value::to_string);
    assert_eq!(texts, ["three", "two"]);
}

#[tokio::test]
async fn it_subscribes_itself_for_as_long_as_it_listens() {
    let mut desk = desk().await;
    let mut listening = desk.start(&["webhook", "listen", "--event", "message.*"]);
    let begun = listening.line().await;
    assert!(
        begun.starts_with("listening at http://127.0.0.1:"),
        "{begun}"
    );
    let expected = "webhook ID calls it for message.*, until this ends";
    assert_eq!(listening.line().await, expected);
    let listed = desk.ok(&["webhook", "list"]).await;
    assert!(
        listed.contains("  active  0        message.*  http://127.0.0.1:"),
        "{listed}"
    );
    say(&desk, "one").await;
    assert!(listening.line().await.starts_with("204 signed "));
    // The server may die in between.
    desk.server.kill().await;
    desk.server = desk.setup.start().await;
    say(&desk, "two").await;
    loop {
        // What was not accounted for before the end comes once more.
        let line = listening.line().await;
        assert!(line.starts_with("204 signed "), "{line}");
        if line.ends_with("two  ID") {
            break;
        }
    }
    listening.interrupt();
    assert_eq!(listening.end().await, (130, "relay: stopped\n".to_owned()));
    let none = "no webhooks; `relay webhook create URL --event EVENT` makes one\n";
    assert_eq!(desk.ok(&["webhook", "list"]).await, none);

    // A server that is away can't be told; it is said what is left to do.
    let (listening, _) = listen(&desk, &["--event", "*"]).await;
    desk.server.kill().await;
    listening.interrupt();
    let (code, said) = listening.end().await;
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("the webhook is still there, which `relay webhook remove "),
        "{said}"
    );
    desk.server = desk.setup.start().await;
    let left = desk.json(&["webhook", "list"]).await;
    let id = left["items"][0]["id"].as_str().unwrap();
    desk.ok(&["webhook", "remove", id]).await;

    // Answers can be chosen, to see what comes of them; when it has enough it removes its webhook, too.
    let failing = [
        "--event",
        "message.created",
        "--answer",
        "500",
        "--count",
        "1",
    ];
    let filter = ["--filter", r#"{"from":"ada"}"#];
    let (mut listening, _) = listen(&desk, &[&failing[..], &filter].concat()).await;
    say(&desk, "three").await;
    let call = arrived(&mut listening).await;
    assert_eq!(
        (&call["answered"], &call["signature"]),
        (&json!(500), &json!("valid"))
    );
    assert_eq!(listening.end().await, (0, String::new()));
    assert_eq!(desk.ok(&["webhook", "list"]).await, none);
}

#[tokio::test]
async fn a_server_that_may_not_call_this_machine_says_what_allows_it() {
    let desk = Desk::new().await;
    let next = "next: whoever starts the server can allow it: RELAY_OUTBOUND_ALLOW=HOST, or outbound.allow in relay.toml\n";
    for refused in [
        ["webhook", "listen", "--event", "*"].as_slice(),
        &["webhook", "create", "http://127.0.0.1:9/", "--event", "*"],
    ] {
        let (code, said) = desk.refused(refused).await;
        assert_eq!(code, 2, "{said}");
        let expected = "relay: url: 127.0.0.1 is at 127.0.0.1 (loopback), which is not called unless `outbound.allow` has it\n";
        assert_eq!(said, format!("{expected}{next}"));
    }
}

#[tokio::test]
async fn webhooks_are_made_shown_switched_and_removed() {
    let desk = desk().await;
    let create = [
        "webhook",
        "create",
        "http://127.0.0.1:9/hook",
        "--event",
        "message.*",
        "--event",
        "action.completed",
        "--filter",
        r#"{"from":"ada"}"#,
        "--header",
        "x-team: release",
    ];
    let created = desk.run(&create).await;
    assert_eq!(created.code, 0, "{created:?}");
    let (_, secret) = created.out.split_once("\nsecret   whsec_").unwrap();
    let secret = secret.split_once('\n').unwrap().0;
    let expected = format!(
        "webhook  ID\ncalls    http://127.0.0.1:9/hook\nfor      message.*, action.completed\nsecret   whsec_{secret}\n\
         the secret is shown this once; whoever is called verifies the signatures with it\n\
         follow it: relay webhook attempts ID\n"
    );
    assert_eq!(masked(&created.out), expected);
    let listed = desk.json(&["webhook", "list"]).await;
    let id = listed["items"][0]["id"].as_str().unwrap();
    assert!(!listed.to_string().contains(secret));
    let show = |state: &str| {
        format!(
            "webhook  ID\ncalls    http://127.0.0.1:9/hook\nfor      message.*, action.completed\n\
             filter   {{\"from\":\"ada\"}}\nheaders  x-team\nstate    {state}\nwaiting  0 events\narrived  nothing yet\n"
        )
    };
    assert_eq!(desk.ok(&["webhook", "show", id]).await, show("active"));
    assert_eq!(desk.ok(&["webhook", "disable", id]).await, show("disabled"));
    let disabled = desk.json(&["webhook", "show", id]).await;
    assert_eq!(disabled["state"], "disabled");

    let said = desk.ok(&["webhook", "secret", id]).await;
    assert!(said.starts_with("secret  whsec_"), "{said}");
    assert!(
        said.ends_with("\ncalls are signed with the old secret, too, until WHEN\n"),
        "{said}"
    );
    let said = desk
        .ok(&["webhook", "secret", id, "--secret", SECRET])
        .await;
    assert_eq!(
        said,
        "calls are signed with the old secret, too, until WHEN\n"
    );

    say(&desk, "hello").await;
    let said = desk.ok(&["webhook", "replay", id, "--from", "1"]).await;
    assert_eq!(
        said,
        "1 event is sent again\nfollow it: relay webhook attempts ID\n"
    );
    let events = desk
        .run(&[
            "listen",
            "message.created",
            "--since",
            "0",
            "--count",
            "1",
            "--json",
        ])
        .await;
    let event: Value = serde_json::from_str(&events.out).unwrap();
    let event = event["id"].as_str().unwrap();
    let again = desk.json(&["webhook", "replay", id, "--id", event]).await;
    assert_eq!(again, json!({ "queued": 1 }));
    let none = desk
        .ok(&["webhook", "replay", id, "--from", "1", "--to", "2"])
        .await;
    assert_eq!(
        none,
        "nothing is sent: the webhook wants none of these events\n"
    );

    assert_eq!(
        desk.json(&["webhook", "enable", id]).await["state"],
        "active"
    );
    let removed = desk.ok(&["webhook", "remove", id]).await;
    assert_eq!(removed, "removed ID: it is not called any more\n");
    let (code, said) = desk.refused(&["webhook", "show", id]).await;
    assert_eq!(code, 4);
    assert!(
        said.contains("next: `relay webhook list` shows those that are called"),
        "{said}"
    );
}

#[tokio::test]
async fn messages_come_in_by_a_url() {
    let desk = desk().await;
    let none = "no messages come in by URL; `relay webhook inbound create CHANNEL` makes one\n";
    assert_eq!(desk.ok(&["webhook", "inbound", "list"]).await, none);
    let create = ["webhook", "inbound", "create", "#general", "--name", "CI"];
    let made = desk.run(&create).await;
    let words = masked(&made.out);
    let url = format!("{}/hooks/ID", desk.server.url);
    assert!(
        words.starts_with(&format!("url    {url}\ntoken  wh_")),
        "{words}"
    );
    let curl =
        format!("messages are posted with it:\n  curl {url} -H 'authorization: bearer TOKEN'");
    assert!(words.contains(&curl), "{words}");
    let made = desk.json(&create).await;
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let body = json!({ "message": "the build is green", "author": "builder" });
    let posted = post(&text("url"), &text("token"), &body).await;
    assert_eq!(posted.status, 201);
    let said = desk.ok(&["channel", "messages", "general"]).await;
    assert!(
        said.contains("builder (via webhook)") && said.contains("the build is green"),
        "{said}"
    );
    let listed = desk.ok(&["webhook", "inbound", "list"]).await;
    let row = listed.lines().nth(2).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["ID", "#general", "CI", "TIME", "ago"], "{listed}");
    let removed = desk
        .ok(&["webhook", "inbound", "remove", &text("id")])
        .await;
    assert_eq!(removed, "removed ID: no messages come in by it any more\n");
    let posted = post(&text("url"), &text("token"), &body).await;
    assert_eq!(posted.status, 401);
    let (code, said) = desk
        .refused(&["webhook", "inbound", "create", "nowhere"])
        .await;
    assert_eq!(code, 4);
    assert!(
        said.contains("`relay channel list` shows which there are"),
        "{said}"
    );
}

#[tokio::test]
async fn what_can_not_be_is_said_before_anything_is_made() {
    let desk = desk().await;
    let url = "http://127.0.0.1:9/";
    let id = "01a1e393-83fa-758d-8000-01000000000b";
    let (taken, place) = listen(&desk, &[]).await;
    let port = place.trim_end_matches('/').rsplit(':').next().unwrap();
    let port_taken = format!("127.0.0.1:{port} can't be listened at");
    let create = format!("create {url} --event");
    let cases = [
        (format!("create {url}"), 2, "--event <EVENT>"),
        (
            format!("{create} mesage.created"),
            2,
            "the nearest are message.created",
        ),
        ("create nowhere --event *".to_owned(), 2, "relay: url: "),
        (
            format!("{create} * --secret short"),
            2,
            "at least 16 bytes, found 5",
        ),
        (
            format!("{create} * --filter {{\"evnt\":1}}"),
            2,
            "expected a filter as JSON: unknown field `evnt`",
        ),
        (
            format!("{create} * --header x-team"),
            2,
            "expected a header such as 'x-team: release'",
        ),
        (
            format!("{create} * --header host:x"),
            2,
            "relay: headers: the header host can't be set",
        ),
        (format!("replay {id}"), 2, "--id <EVENT>"),
        (
            format!("replay {id} --id {id} --from 3"),
            2,
            "cannot be used with",
        ),
        (
            "listen --secret short".to_owned(),
            2,
            "relay: --secret: expected a secret of at least 16 bytes, found 5",
        ),
        ("listen --answer 99".to_owned(), 2, "99 is not in 200..600"),
        (
            "listen --event * --url http://10.0.0.1/".to_owned(),
            2,
            "relay: url: 10.0.0.1 is at 10.0.0.1",
        ),
        (
            "listen --url http://10.0.0.1/".to_owned(),
            2,
            "--event <EVENT>",
        ),
        (format!("listen --port {port}"), 1, &port_taken),
    ];
    for (words, exit, expected) in cases {
        let arguments = ["webhook"].into_iter().chain(words.split(' '));
        let (code, said) = desk.refused(&arguments.collect::<Vec<_>>()).await;
        assert_eq!(code, exit, "{words}: {said}");
        assert!(said.contains(expected), "{words}: {said}");
    }
    drop(taken);
    let listed = desk.json(&["webhook", "list"]).await;
    assert_eq!(listed["items"], json!([]));
}
