//! `kill -9` of the server, or of whoever asks, at every point of a permission request: nothing is asked or run twice, nothing
//! decided is forgotten, and what can't go on says so.

use std::fs::File;
use std::path::PathBuf;

use serde_json::Value;

use crate::commands::permissions::{ada_asks, asked};
use crate::support::{Desk, Running, masked, soon, text};

struct Scene {
    desk: Desk,
    watch: Running,
    /// Where commands write that they have run.
    ran: PathBuf,
}

impl Scene {
    async fn new() -> Self {
        let desk = Desk::new().await;
        desk.register(&["ada"]).await;
        let watch = desk.start(&["permission", "watch", "--json"]);
        let ran = desk.setup.file("ran");
        Self { desk, watch, ran }
    }

    /// Ada asks to run something that is to run once.
    fn ask(&self, then: &str) -> Running {
        let command = format!("echo ran >> {}; echo out; {then}", text(&self.ran));
        ada_asks(&self.desk, &["--call-id", "c1", "--", &command])
    }

    async fn asked(&mut self) -> String {
        asked(&mut self.watch).await
    }

    async fn approve(&self, id: &str) {
        self.desk.ok(&["permission", "approve", id]).await;
    }

    /// The server dies, and another one comes.
    async fn restart(mut self) -> Self {
        self.desk.server.kill().await;
        self.desk.server = self.desk.setup.start().await;
        self
    }

    /// How often the command has run.
    fn runs(&self) -> usize {
        let ran = std::fs::read_to_string(&self.ran).unwrap_or_default();
        ran.lines().count()
    }

    /// The only request there is.
    async fn record(&self) -> Value {
        let listed = self.desk.json(&["permission", "list"]).await;
        assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
        listed["items"][0].clone()
    }

    /// A pipe that a command can wait at until this end of it is dropped.
    fn gate(&self) -> (PathBuf, File) {
        let path = self.desk.setup.file("gate");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let end = File::options().read(true).write(true).open(&path);
        (path, end.unwrap())
    }
}

async fn kill(mut run: Running) {
    soon("the kill", run.child.kill()).await.unwrap();
}

#[tokio::test]
async fn the_server_dies_while_it_is_asked() {
    let mut scene = Scene::new().await;
    let mut run = scene.ask("");
    let id = scene.asked().await;
    let scene = scene.restart().await;
    scene.approve(&id).await;
    assert_eq!(run.line().await, "out");
    assert_eq!(run.end().await.0, 0);
    assert_eq!(scene.runs(), 1);
    assert_eq!(scene.record().await["execution"]["state"], "completed");
}

#[tokio::test]
async fn whoever_asks_dies_while_it_waits() {
    let mut scene = Scene::new().await;
    let run = scene.ask("");
    let id = scene.asked().await;
    kill(run).await;
    // The question is still there; whoever comes back has the same one.
    let mut again = scene.ask("");
    scene.approve(&id).await;
    assert_eq!(again.line().await, "out");
    assert_eq!(again.end().await.0, 0);
    assert_eq!(scene.runs(), 1);
    assert_eq!(scene.record().await["permissionId"], id.as_str());
}

#[tokio::test]
async fn both_die_between_decision_and_start() {
    let mut scene = Scene::new().await;
    let run = scene.ask("");
    let id = scene.asked().await;
    kill(run).await;
    scene.approve(&id).await;
    let scene = scene.restart().await;
    let decided = scene.record().await;
    assert_eq!(
        (&decided["state"], decided.get("execution")),
        (&"approved".into(), None)
    );
    assert_eq!(scene.desk.refused(&["permission", "deny", &id]).await.0, 8);
    let mut again = scene.ask("");
    assert_eq!(again.line().await, "out");
    let (code, said) = again.end().await;
    // It was not asked again.
    assert_eq!(
        (code, said.as_str()),
        (0, "allowed by the workspace via cli\n")
    );
    assert_eq!(scene.runs(), 1);
    assert_eq!(scene.record().await["execution"]["state"], "completed");
}

#[tokio::test]
async fn both_die_between_start_and_result() {
    let mut scene = Scene::new().await;
    let (gate, end) = scene.gate();
    let wait = format!("cat {}", text(&gate));
    let mut run = scene.ask(&wait);
    let id = scene.asked().await;
    scene.approve(&id).await;
    assert_eq!(run.line().await, "out");
    kill(run).await;
    let scene = scene.restart().await;
    assert_eq!(scene.record().await["execution"]["state"], "started");
    for _ in 0..2 {
        let (code, said) = scene.ask(&wait).end().await;
        let expected = "relay: ID was started before, and nobody can say how it ended; it is not run again\n\
                        next: look at what it has done; another --call-id asks anew\n";
        assert_eq!((code, masked(&said).as_str()), (123, expected));
    }
    drop(end);
    assert_eq!(scene.runs(), 1);
    let record = scene.record().await;
    assert_eq!(record["state"], "approved");
    assert_eq!(record["execution"]["state"], "unknown");
    let why = record["execution"]["error"].as_str().unwrap();
    assert!(why.contains("ended without saying how"), "{why}");
}

#[tokio::test]
async fn the_server_dies_while_the_command_runs() {
    let mut scene = Scene::new().await;
    let (gate, end) = scene.gate();
    let mut run = scene.ask(&format!("cat {}; exit 3", text(&gate)));
    let id = scene.asked().await;
    scene.approve(&id).await;
    assert_eq!(run.line().await, "out");
    let scene = scene.restart().await;
    drop(end);
    assert_eq!(run.end().await.0, 3);
    assert_eq!(scene.runs(), 1);
    let record = scene.record().await;
    assert_eq!(record["execution"]["state"], "failed");
    assert_eq!(record["execution"]["error"], "exit code 3");
}

#[tokio::test]
async fn what_nobody_can_answer_any_more_is_cancelled_and_not_denied() {
    let mut scene = Scene::new().await;
    let run = scene.ask("");
    let id = scene.asked().await;
    let scene = scene.restart().await;
    scene
        .desk
        .ok(&["agent", "release", "ada", "--reason", "moved"])
        .await;
    let (code, said) = run.end().await;
    assert!(code != 0 && code != 126, "{code}: {said}");
    let shown = scene.desk.json(&["permission", "show", &id]).await;
    assert_eq!(shown["permission"]["state"], "cancelled");
    assert!(
        shown["permission"]["outcome"]["reason"].is_string(),
        "{shown}"
    );
    assert_eq!(scene.runs(), 0);
}
