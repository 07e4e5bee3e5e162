//! `relay chat` without a terminal: one prompt, what is denied and what may run, programs that read it, Ctrl-C, and connections that
//! break.

use serde_json::{Value, json};

use crate::chats::Room;
use crate::support::{Proxy, Running};

const DEMO: [&str; 3] = ["chat", "--model", "scripted/demo"];

fn demo<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&DEMO, more].concat()
}

/// The next event that is printed.
async fn event(running: &mut Running) -> Option<Value> {
    let line = running.try_line().await?;
    Some(serde_json::from_str(&line).unwrap())
}

async fn until(running: &mut Running, kind: &str) -> Value {
    while let Some(event) = event(running).await {
        if event["type"] == kind {
            return event;
        }
    }
    panic!("{kind} did not come");
}

#[tokio::test]
async fn what_nobody_can_be_asked_about_is_denied() {
    let room = Room::new().await;
    let done = room.desk.run(&demo(&["What is here?"])).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        done.out,
        "Let me see what is here.\n\
         \x20 denied: nobody could be asked: there is no terminal\n\
         All right, I leave it.\n"
    );
    assert_eq!(
        done.err,
        "denied bash: ls -la: there is no terminal to ask at; --allow 'bash:ls **' allows it\n"
    );
}

#[tokio::test]
async fn what_is_allowed_runs() {
    let room = Room::new().await;
    let allow = demo(&["What is here?", "--allow", "bash:ls **"]);
    let done = room.desk.run(&allow).await;
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
    let expected = "Let me see what is here.\ntool bash: ls -la\n  ";
    assert!(done.out.starts_with(expected), "{}", done.out);
    assert!(done.out.contains("notes.txt\n"), "{}", done.out);
    let end = "\nThat is what is here. What would you like to do with it?\n";
    assert!(done.out.ends_with(end), "{}", done.out);
    let wrong = room.desk.refused(&demo(&["x", "--allow", ""])).await;
    assert_eq!(wrong.0, 2, "{wrong:?}");
}

#[tokio::test]
async fn prompts_come_from_pipes_and_events_go_to_programs() {
    let room = Room::new().await;
    for arguments in [demo(&["--json"]), demo(&["-", "--json"])] {
        let done = room.desk.fed("What is here?", &arguments).await;
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
        let lines = done
            .out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let events: Vec<Value> = lines.collect();
        let kinds: Vec<&str> = events
            .iter()
            .filter_map(|event| event["type"].as_str())
            .collect();
        assert_eq!(kinds.first(), Some(&"connected"));
        assert_eq!(kinds.last(), Some(&"harness_end"));
        assert!(kinds.contains(&"relay_resolved"), "{kinds:?}");
    }
    let empty = room.desk.fed(" \n", &DEMO).await;
    assert_eq!(empty.code, 2, "{empty:?}");
}

#[tokio::test]
async fn models_are_listed_and_one_is_the_default() {
    let room = Room::new().await;
    assert_eq!(
        room.desk.ok(&["chat", "--models"]).await.trim_end(),
        "model\nscripted/demo"
    );
    assert_eq!(
        room.desk.json(&["chat", "--models"]).await,
        json!({ "models": ["scripted/demo"] })
    );
    let (code, said) = room.desk.refused(&["chat", "Hello"]).await;
    assert_eq!(
        (code, said.as_str()),
        (
            2,
            "relay: this server has no default model\n\
             next: say one with --model; `relay chat --models` shows them, and chat.default_model sets one\n"
        )
    );
    let (code, said) = room
        .desk
        .refused(&["chat", "Hello", "--model", "no/such"])
        .await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.starts_with("relay: ") && said.contains("no/such"),
        "{said}"
    );
    let room = Room::with(&[("RELAY_CHAT_DEFAULT_MODEL", "scripted/demo")]).await;
    let shown = room.desk.ok(&["chat", "--models"]).await;
    assert_eq!(shown, "model\nscripted/demo  default\n");
    room.desk.ok(&["chat", "Hello"]).await;
}

#[tokio::test]
async fn who_may_not_chat_is_told_so() {
    let room = Room::new().await;
    room.desk.register(&["ada"]).await;
    let (code, said) = room.desk.refused(&demo(&["Hello", "--as", "ada"])).await;
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("found an agent token"), "{said}");
    let mut command = room.desk.command(&demo(&["Hello"]));
    command
        .env("RELAY_URL", "http://127.0.0.1:1")
        .env("RELAY_TOKEN", "x");
    let done = crate::support::finish(&mut command).await;
    assert_eq!(done.code, 3, "{done:?}");
    assert!(
        done.err.contains("no server answers at http://127.0.0.1:1"),
        "{done:?}"
    );
}

#[tokio::test]
async fn ctrl_c_cancels_the_run() {
    let room = Room::new().await;
    let hangs = r#"script:[["On it. ", {"hang": true}]]"#;
    let mut chat = room.desk.start(&demo(&[hangs, "--json"]));
    until(&mut chat, "text").await;
    chat.interrupt();
    let end = until(&mut chat, "harness_end").await;
    assert_eq!(end["reason"], "cancelled");
    assert_eq!(chat.end().await.0, 130);
    // What a service manager says ends it at once, and the run with it.
    let mut chat = room.desk.start(&demo(&[hangs, "--json", "--hold", "1h"]));
    let session = until(&mut chat, "connected").await["sessionId"].clone();
    until(&mut chat, "text").await;
    chat.terminate();
    assert_eq!(chat.end().await.0, 130);
    let path = format!("/chat/{}/events", session.as_str().unwrap());
    let seen = room.events(&path).await;
    let end = seen.last().unwrap();
    assert_eq!(
        (end["type"].as_str(), end["reason"].as_str()),
        (Some("harness_end"), Some("cancelled"))
    );
}

#[tokio::test]
async fn a_held_chat_is_picked_up_where_it_was() {
    let room = Room::new().await;
    let proxy = Proxy::to(room.desk.server.address).await;
    let (url, key) = (proxy.url(), room.desk.server.key.clone());
    let through = [("RELAY_URL", url.as_str()), ("RELAY_TOKEN", key.as_str())];
    let talks = r#"script:[[{"text": "word ", "times": 60, "everyMs": 20}]]"#;
    let held = demo(&[talks, "--json", "--hold", "60s"]);
    let mut chat = room.desk.start_with(&through, &held);
    until(&mut chat, "text").await;
    proxy.cut();
    let mut words = 1;
    let end = loop {
        let event = event(&mut chat).await.expect("it comes back");
        match event["type"].as_str() {
            Some("text") => words += event["content"].as_str().unwrap().matches("word ").count(),
            Some("harness_end") => break event,
            _ => {}
        }
    };
    assert_eq!((words, end["reason"].as_str()), (60, Some("final")));
    assert_eq!(chat.end().await.0, 0);
    assert!(proxy.connections() >= 2);

    // Without being held it is over, and that is said.
    let mut chat = room.desk.start_with(&through, &demo(&[talks, "--json"]));
    until(&mut chat, "text").await;
    proxy.cut();
    let (code, said) = chat.end().await;
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("the connection broke"), "{said}");
}
