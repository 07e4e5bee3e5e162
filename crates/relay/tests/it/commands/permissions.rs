//! `relay permission` and `relay grant` for those who decide.

use serde_json::{Value, json};

use crate::support::{Desk, Running, masked, text};

/// A server with ada, who asks, and ann, a person; and somebody who watches.
async fn desk_with_watch() -> (Desk, Running) {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    desk.ok(&["agent", "register", "ann", "--type", "human"])
        .await;
    let watch = desk.start(&["permission", "watch", "--json"]);
    (desk, watch)
}

/// The next line of somebody who watches.
pub(crate) async fn happened(watch: &mut Running) -> Value {
    serde_json::from_str(&watch.unmasked_line().await).unwrap()
}

/// The next request.
pub(crate) async fn asked(watch: &mut Running) -> String {
    loop {
        let line = happened(watch).await;
        if line["type"] == "asked" {
            return line["permission"]["permissionId"]
                .as_str()
                .unwrap()
                .to_owned();
        }
    }
}

/// Ada asks whether a command may run.
pub(crate) fn ada_asks(desk: &Desk, words: &[&str]) -> Running {
    let run = ["permission", "run", "--as", "ada"];
    let path = ("PATH", &*std::env::var("PATH").unwrap());
    desk.start_with(&[path], &[&run[..], words].concat())
}

#[tokio::test]
async fn a_request_is_listed_shown_and_allowed_once() {
    let (desk, mut watch) = desk_with_watch().await;
    let none = "no permission requests\n";
    assert_eq!(desk.ok(&["permission", "list"]).await, none);
    let mut run = ada_asks(&desk, &["--title", "say it", "--", "echo", "it is", "done"]);
    let id = asked(&mut watch).await;
    let list = [
        "permission",
        "list",
        "--state",
        "pending",
        "--agent",
        "@ada",
    ];
    let listed = desk.ok(&list).await;
    let expected = "permission agent tool state what ID @ada bash pending, TIME left say it (echo 'it is' done)";
    let squeezed = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed, expected);
    let here = std::env::current_dir().unwrap();
    let shown = desk.ok(&["permission", "show", &id]).await;
    let expected = format!(
        "@ada wants bash: say it TIME ago  ID\n\
         command  echo 'it is' done\n\
         in       {}\n\
         always   bash:echo **  @ada: `echo` with any arguments, such as `echo 'it is' done`\n\
         always   bash:echo 'it is' done  @ada: exactly this command\n\
         told     @ann (pending)\n\
         state    pending, TIME left\n",
        here.display()
    );
    assert_eq!(shown, expected);
    let whole = desk.json(&["permission", "show"]).await;
    assert_eq!(whole["permission"]["permissionId"], id.as_str());
    assert_eq!(whole["told"][0]["agent"], "ann");
    assert_eq!(whole["seen"], json!([]));

    let said = desk.ok(&["permission", "approve", "--as", "ann"]).await;
    assert_eq!(said, "approved ID  @ada bash: say it (echo 'it is' done)\n");
    assert_eq!(run.line().await, "it is done");
    assert_eq!(run.end().await.0, 0);
    let shown = desk.ok(&["permission", "show", &id]).await;
    assert!(
        shown.contains("state    approved by @ann via cli at "),
        "{shown}"
    );
    assert!(
        shown.ends_with("\ncall     completed after TIME\n"),
        "{shown}"
    );

    // Whoever comes later is told who was faster.
    let (code, said) = desk.refused(&["permission", "deny", &id]).await;
    let expected = "relay: the request ID is approved already, by human ann via cli at WHEN\n";
    assert_eq!((code, said.as_str()), (8, expected));
    let late = desk.run(&["permission", "deny", &id, "--json"]).await;
    let late: Value = serde_json::from_str(&late.err).unwrap();
    assert_eq!(late["error"]["problem"]["outcome"]["by"]["name"], "ann");
    let (code, said) = desk.refused(&["permission", "approve"]).await;
    assert_eq!(code, 4);
    assert!(
        said.starts_with("relay: nothing waits for a decision\n"),
        "{said}"
    );
}

#[tokio::test]
async fn always_is_a_grant_until_it_is_revoked() {
    let (desk, mut watch) = desk_with_watch().await;
    let run = ada_asks(&desk, &["--", "echo", "one"]);
    let id = asked(&mut watch).await;
    let always = ["permission", "approve", &id, "--always", "--for", "1h"];
    let said = desk.ok(&always).await;
    let expected = "approved ID  @ada bash: echo one\n\
                    granted bash:echo **\n\
                    take it back: relay grant revoke ID\n";
    assert_eq!(said, expected);
    assert_eq!(run.end().await.0, 0);
    let mut run = ada_asks(&desk, &["--", "echo", "two"]);
    assert_eq!(run.line().await, "two");
    let (code, said) = run.end().await;
    assert_eq!((code, said.as_str()), (0, "allowed by a grant\n"));

    let grants = desk.json(&["grant", "list", "--agent", "ada"]).await;
    let grant = grants["items"][0]["grantId"].as_str().unwrap();
    let listed = desk.ok(&["grant", "list"]).await;
    let row = listed.lines().nth(1).unwrap();
    let parts: Vec<&str> = row.split("  ").filter(|part| !part.is_empty()).collect();
    assert_eq!(parts.len(), 6, "{listed}");
    assert_eq!(
        parts[..5],
        ["ID", "bash:echo **", "@ada", "the workspace", "for TIME"]
    );
    let said = desk.ok(&["grant", "revoke", grant]).await;
    assert_eq!(
        said,
        "revoked bash:echo ** for @ada; it is asked about again\n"
    );
    let none = "no grants; `relay permission approve --always` makes one\n";
    assert_eq!(desk.ok(&["grant", "list"]).await, none);
    let all = desk.ok(&["grant", "list", "--all"]).await;
    assert!(all.contains("revoked TIME ago"), "{all}");

    let run = ada_asks(&desk, &["--", "echo", "three"]);
    // What the grant allowed came before nobody.
    let id = asked(&mut watch).await;
    let denied = [
        "permission",
        "deny",
        &id,
        "--reason",
        "enough",
        "--guidance",
        "rest",
    ];
    let said = desk.ok(&denied).await;
    let expected = "denied ID  @ada bash: echo three\n\
                    @ada gets a message with what to do instead\n";
    assert_eq!(said, expected);
    let (code, said) = run.end().await;
    assert_eq!(code, 126);
    let last = said.lines().last().unwrap();
    assert_eq!(last, "relay: denied by the workspace via cli: enough");
    let inbox = desk.ok(&["inbox", "--as", "ada"]).await;
    assert!(inbox.contains("\n  rest\n"), "{inbox}");

    // The log tells the whole story.
    let told = desk
        .ok(&["listen", "grant.*", "--since", "0", "--count", "2"])
        .await;
    let lines: Vec<&str> = told.lines().map(|line| &line[16..]).collect();
    let about = "allow bash:echo ** for @ada, by the workspace  ID";
    let expected = [
        format!("grant.created          {about}"),
        format!("grant.revoked          {about}"),
    ];
    assert_eq!(lines, expected, "{told}");
    let told = desk
        .ok(&["listen", "permission.*", "--since", "0", "--count", "4"])
        .await;
    let expected = [
        "permission.requested   @ada bash: echo one  ID",
        "permission.resolved    approved by the workspace via cli at ",
        "permission.started     started at ",
        "permission.finished    completed after TIME  ID",
    ];
    for (line, expected) in told.lines().zip(expected) {
        assert!(line[16..].starts_with(expected), "{told}");
    }
}

#[tokio::test]
async fn rules_are_tried_set_and_refused() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let set = r#"permissions={"allowlist": ["bash:git status **"], "deny": ["bash:rm **"]}"#;
    let policy = desk.json(&["policy", "set", set]).await;
    assert_eq!(policy["permissions"]["deny"], json!(["bash:rm **"]));
    let shown = desk.ok(&["policy", "show"]).await;
    assert!(
        shown.contains("\npermissions.deny       [\"bash:rm **\"]\n"),
        "{shown}"
    );
    for (command, code, said) in [
        (
            "git status -s",
            0,
            "allow\nwhy       The allow rule `bash:git status **` covers",
        ),
        ("git push", 9, "ask\nwhy       No rule covers this call."),
        (
            "git status; rm x",
            126,
            "deny\nwhy       The deny rule `bash:rm **` matches",
        ),
        ("git status $(id)", 9, "ask\nwhy       "),
    ] {
        let done = desk
            .run(&["permission", "test", "--command", command])
            .await;
        assert_eq!((done.code, done.err.as_str()), (code, ""), "{done:?}");
        assert!(
            done.out.contains(&format!("\ndecision  {said}")),
            "{done:?}"
        );
    }
    let json = desk
        .json(&["permission", "test", "bash", r#"{"command": "git status"}"#])
        .await;
    assert_eq!(
        (&json["decision"], &json["rule"]),
        (&json!("allow"), &json!("bash:git status **"))
    );

    // A file instead of the rules in force; what can't be read is named.
    let file = desk.setup.file("rules.json");
    let test = [
        "permission",
        "test",
        "--command",
        "ls",
        "--policy",
        text(&file),
    ];
    std::fs::write(&file, r#"{"allowlist": ["bash:ls"]}"#).unwrap();
    assert_eq!(desk.run(&test).await.code, 0);
    for (rules, said) in [
        (
            r#"{"allow": []}"#,
            "rules.json: allow: unknown field `allow`",
        ),
        (
            r#"{"allowlist": ["bash:ls", {"tool": 7}]}"#,
            "rules.json: allowlist[1]",
        ),
        (r#"{"deny": [" bash"]}"#, "rules.json: deny[0]"),
        ("[]", "rules.json: "),
    ] {
        std::fs::write(&file, rules).unwrap();
        for command in [&test[..], &["permission", "watch", "--policy", text(&file)]] {
            let (code, found) = desk.refused(command).await;
            assert_eq!(code, 2, "{found}");
            assert!(found.contains(said), "{rules}: {found}");
        }
    }
    for (set, said) in [
        ("permissions=yes", "relay: permissions: expected JSON: "),
        (
            "permissions.allow=[]",
            "relay: permissions.allow: unknown field `allow`",
        ),
        (
            r#"permissions.allowlist=[7]"#,
            "relay: permissions.allowlist[0]",
        ),
        (
            r#"permissions.deny=["bash:"]"#,
            "relay: permissions.deny[0]",
        ),
    ] {
        let (code, found) = desk.refused(&["policy", "set", set]).await;
        assert_eq!(code, 2, "{found}");
        assert!(found.starts_with(said), "{set}: {found}");
    }
    let policy = desk.json(&["policy", "set", "permissions={}"]).await;
    assert_eq!(policy.get("permissions"), None);
}

#[tokio::test]
async fn a_policy_answers_and_leaves_the_rest_to_people() {
    let (desk, _watch) = desk_with_watch().await;
    let file = desk.setup.file("rules.json");
    let rules = r#"{"allowOnce": ["bash:echo one"], "deny": ["bash:rm **"]}"#;
    std::fs::write(&file, rules).unwrap();
    let mut approver = desk.start(&["permission", "watch", "--policy", text(&file)]);
    let (code, said) = ada_asks(&desk, &["--", "echo", "one"]).end().await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.ends_with("allowed by the policy rules.json via watch\n"),
        "{said}"
    );
    assert_eq!(approver.line().await, "asked @ada bash: echo one  ID");
    assert_eq!(approver.line().await, "approved ID  @ada bash: echo one");
    let line = approver.line().await;
    assert!(
        line.starts_with("approved by the policy rules.json via watch at "),
        "{line}"
    );
    let (code, said) = ada_asks(&desk, &["--", "rm", "x"]).end().await;
    assert_eq!(code, 126);
    let denied = "relay: denied by the policy rules.json via watch: The deny rule `bash:rm **` matches this call.\n";
    assert!(said.ends_with(denied), "{said}");
    for begin in ["asked", "denied ID", "denied by"] {
        let line = approver.line().await;
        assert!(line.starts_with(begin), "{line}");
    }
    // What was for one call is used up: somebody has to decide.
    let run = ada_asks(&desk, &["--", "echo", "one"]);
    assert_eq!(approver.line().await, "asked @ada bash: echo one  ID");
    desk.ok(&["permission", "approve"]).await;
    let line = approver.line().await;
    assert!(
        line.starts_with("approved by the workspace via cli at "),
        "{line}"
    );
    assert_eq!(run.end().await.0, 0);
    approver.interrupt();
    let (code, said) = approver.end().await;
    assert_eq!(
        (code, said.as_str()),
        (130, "relay: stopped; what waits goes on waiting\n")
    );
}

#[tokio::test]
async fn who_may_not_is_told_so() {
    let (desk, mut watch) = desk_with_watch().await;
    let run = ada_asks(&desk, &["--", "id"]);
    let id = asked(&mut watch).await;
    let (code, said) = desk
        .refused(&["permission", "approve", &id, "--as", "ada"])
        .await;
    assert_eq!(code, 5, "{said}");
    let (code, said) = desk.refused(&["permission", "watch", "--as", "ada"]).await;
    assert_eq!(code, 5);
    assert!(said.contains("found @ada, an agent"), "{said}");
    let (code, said) = desk
        .refused(&["permission", "approve", &id, "--option", "maybe"])
        .await;
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("next: allow_once allows once, "), "{said}");
    let (code, _) = desk
        .refused(&["permission", "approve", &id, "--rule", "bash"])
        .await;
    assert_eq!(code, 2);
    let narrow = [
        "permission",
        "approve",
        &id,
        "--always",
        "--rule",
        "bash:ls",
    ];
    let (code, said) = desk.refused(&narrow).await;
    assert_eq!(code, 2, "{said}");
    let unknown = "01a1e393-83fa-768d-8000-01000000000b";
    let (code, said) = desk.refused(&["permission", "show", unknown]).await;
    assert_eq!(code, 4);
    assert!(
        said.ends_with("next: `relay permission list` shows the latest\n"),
        "{said}"
    );
    assert_eq!(desk.refused(&["grant", "revoke", unknown]).await.0, 4);
    let cancel = ["permission", "cancel", &id, "--reason", "done by hand"];
    let said = desk.ok(&cancel).await;
    assert_eq!(said, "cancelled ID  @ada bash: id\n");
    let (code, said) = run.end().await;
    assert_eq!(code, 125);
    let last = masked(said.lines().last().unwrap());
    assert_eq!(last, "relay: the request ID was withdrawn: done by hand");
}
