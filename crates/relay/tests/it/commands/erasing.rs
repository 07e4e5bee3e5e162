//! `relay audit erase`: nothing of what was erased is left, in answers or in files.

use std::path::Path;

use relay_sdk::{
    Action, ActionCall, ActionError, AgentClient, CallbackSession, Handling, delivered, failed,
};
use serde_json::{Value, json};

use crate::support::{Desk, Server, finish, text};

/// What must not be found. One word, as the search index has it.
const SECRET: &str = "xyzzyplugh";

/// Enough rows that the pages of every table are split.
const MANY: usize = 300;

/// The file names in a data directory that hold these bytes, and how often.
fn files_with(data: &Path, bytes: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        let Ok(content) = std::fs::read(&path) else {
            continue;
        };
        let windows = content.windows(bytes.len());
        let count = windows
            .filter(|window| window.eq_ignore_ascii_case(bytes.as_bytes()))
            .count();
        if count > 0 {
            found.push((path.file_name().unwrap().to_string_lossy().into(), count));
        }
    }
    found
}

/// The numbers of the events that show it.
async fn events_with(desk: &Desk, bytes: &str) -> Vec<u64> {
    let exported = desk.run(&["audit", "export"]).await.out;
    let lines = exported.lines().filter(|line| line.contains(bytes));
    lines
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["seq"]
                .as_u64()
                .unwrap()
        })
        .collect()
}

async fn messages(desk: &Desk, ada: &AgentClient) {
    for n in 0..MANY {
        let text = format!("number {n}: {SECRET} {}", "and more ".repeat(n % 90));
        let sent = ada.send_message("@bob", text);
        let sent = sent.idempotency_key(format!("key-{n}")).await.unwrap();
        if n % 7 == 0 {
            let id = sent.message_id;
            ada.edit_message(id, format!("once more: {SECRET} {n}"))
                .await
                .unwrap();
        }
    }
    let file = desk.setup.file("notes.txt");
    std::fs::write(&file, format!("the notes: {SECRET}\n").repeat(500)).unwrap();
    let attach = ["send", "bob", "see the file", "--as", "ada", "--no-wait"];
    let attach = [&attach[..], &["--attach", text(&file)]].concat();
    desk.ok(&attach).await;
}

async fn receipts(desk: &Desk, bob: &AgentClient) {
    let reason = format!("no room for {SECRET}");
    let session = CallbackSession::new(bob.identity().clone(), move |message, context| {
        let receipt = match message.text.contains("fails") {
            true => failed(reason.clone()),
            false => delivered(context.id),
        };
        async move { Ok(receipt) }
    });
    let session = bob.attach(session).await.unwrap();
    let sent = desk
        .run(&["send", "bob", "this fails", "--as", "ada"])
        .await;
    assert_eq!(sent.code, 6, "{sent:?}");
    drop(session);
}

async fn calls(desk: &Desk, bob: &AgentClient) -> Handling {
    let schema = json!({ "type": "object" });
    let action = Action::with_schema("classify", schema).notify_caller();
    let handling = bob
        .register_action(action, |call: ActionCall| async move {
            match call.input["well"].as_bool() {
                Some(true) => Ok(json!({ "label": format!("{SECRET} of {}", call.action) })),
                _ => Err(ActionError::new(format!("can't read {SECRET}"))),
            }
        })
        .await
        .unwrap();
    for (input, code) in [
        (json!({ "well": true, "text": SECRET }), 0),
        (json!({ "text": SECRET }), 6),
    ] {
        let input = input.to_string();
        let done = desk
            .run(&["action", "invoke", "classify", &input, "--as", "ada"])
            .await;
        assert_eq!(done.code, code, "{done:?}");
    }
    handling
}

async fn permissions(desk: &Desk) {
    let mut running = desk.start(&["permission", "run", "--as", "ada", "--", "echo", SECRET]);
    let id = loop {
        let listed = desk
            .json(&["permission", "list", "--state", "pending"])
            .await;
        if let Some(id) = listed["items"][0]["permissionId"].as_str() {
            break id.to_owned();
        }
    };
    let guidance = format!("leave {SECRET} alone");
    let deny = [
        "permission",
        "deny",
        &id,
        "--reason",
        SECRET,
        "--guidance",
        &guidance,
        "--as",
        "ann",
    ];
    desk.ok(&deny).await;
    assert_eq!(running.child.wait().await.unwrap().code(), Some(126));
}

#[tokio::test]
async fn what_was_erased_is_in_no_answer_and_in_no_file() {
    let desk = Desk::new().await;
    desk.server.unhurried().await;
    desk.register(&["ada", "bob"]).await;
    desk.ok(&["agent", "register", "ann", "--type", "human"])
        .await;
    let (ada, bob) = (desk.agent("ada").await, desk.agent("bob").await);
    messages(&desk, &ada).await;
    receipts(&desk, &bob).await;
    let handling = calls(&desk, &bob).await;
    permissions(&desk).await;
    desk.ok(&["send", "bob", "this stays", "--as", "ada", "--no-wait"])
        .await;
    // The search index has it, too.
    desk.ok(&["search", SECRET]).await;

    let seqs = events_with(&desk, SECRET).await;
    assert!(seqs.len() > MANY, "{}", seqs.len());
    let seqs: Vec<String> = seqs.iter().map(u64::to_string).collect();
    let mut erase = vec!["audit", "erase", "--reason", "a secret"];
    erase.extend(seqs.iter().map(String::as_str));
    // The file is an upload: the event of its message refers to it.
    let exported = desk.run(&["audit", "export"]).await.out;
    let with_file = exported
        .lines()
        .find(|line| line.contains("see the file"))
        .unwrap();
    let with_file: Value = serde_json::from_str(with_file).unwrap();
    let (file, seq) = (
        with_file["message"]["attachments"][0]["attachmentId"].clone(),
        with_file["seq"].to_string(),
    );
    erase.push(&seq);
    desk.ok(&erase).await;

    assert_eq!(events_with(&desk, SECRET).await, [] as [u64; 0]);
    let found = desk.json(&["search", SECRET]).await;
    assert_eq!(found["items"], json!([]));
    let id = file.as_str().unwrap().parse().unwrap();
    assert!(ada.attachment(id).await.is_err());
    // The request of before does not bring it back.
    let text_of_one = format!("number 0: {SECRET} ");
    let again = ada
        .send_message("@bob", text_of_one)
        .idempotency_key("key-0")
        .await;
    let code = again.unwrap_err().code().map(|code| code.to_string());
    assert_eq!(code.as_deref(), Some("idempotency_conflict"));
    let report = desk.json(&["audit", "verify"]).await;
    assert_eq!(report["intact"], true, "{report}");

    drop((handling, ada, bob));
    let Desk { setup, server } = desk;
    server.terminate();
    assert!(server.end().await.success());
    assert_eq!(files_with(&setup.data(), SECRET), []);
    assert_ne!(files_with(&setup.data(), "this stays"), []);
    // And it goes on.
    let mut command = setup.serve();
    command.args(["--listen", "127.0.0.1:0"]);
    let _server = Server::start(command, &setup.data(), setup.file("log2")).await;
    let mut command = setup.relay();
    command
        .args(["search", "stays", "--json", "--data"])
        .arg(setup.data());
    let done = finish(&mut command).await;
    assert!(done.out.contains("this stays"), "{done:?}");
}

#[tokio::test]
async fn an_attachment_stays_as_long_as_another_message_has_it() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let ada = desk.agent("ada").await;
    let file = desk.setup.file("notes.txt");
    std::fs::write(&file, "shared notes").unwrap();
    let stored = ada
        .upload("text/plain", "notes.txt", b"shared notes".to_vec())
        .await
        .unwrap();
    let mut created = Vec::new();
    for text in ["the first", "the second"] {
        ada.send_message("@bob", text)
            .attachment(stored.attachment_id)
            .await
            .unwrap();
        created.push(events_with(&desk, text).await[0].to_string());
    }
    desk.ok(&["audit", "erase", &created[0], "--reason", "why"])
        .await;
    ada.attachment(stored.attachment_id).await.unwrap();
    desk.ok(&["audit", "erase", &created[1], "--reason", "why"])
        .await;
    assert!(ada.attachment(stored.attachment_id).await.is_err());
    let erased = events_with(&desk, "\"audit.erased\"").await;
    assert_eq!(erased.len(), 2);
}

#[tokio::test]
async fn an_erasure_names_the_events_that_it_took() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let mut first = Vec::new();
    for text in ["one", "two", "three"] {
        desk.ok(&["send", "bob", text, "--as", "ada", "--no-wait"])
            .await;
        first.push(events_with(&desk, &format!("\"{text}\"")).await);
    }
    // Any event of a send stands for all of them.
    let seqs = [
        first[0].last().unwrap().to_string(),
        first[2][0].to_string(),
    ];
    let erase = ["audit", "erase", &seqs[0], &seqs[1], "--reason", "why"];
    assert_eq!(desk.json(&erase).await, json!({ "erased": 2 }));
    let exported = desk.run(&["audit", "export"]).await.out;
    let last: Value = serde_json::from_str(exported.lines().last().unwrap()).unwrap();
    let range = |seqs: &[u64]| json!({ "fromSeq": seqs[0], "toSeq": seqs.last().unwrap() });
    assert_eq!(last["type"], "audit.erased");
    assert_eq!(last["ranges"], json!([range(&first[0]), range(&first[2])]));
    assert_eq!(
        (&last["fromSeq"], &last["toSeq"]),
        (&json!(first[0][0]), &json!(first[2].last().unwrap()))
    );
}
