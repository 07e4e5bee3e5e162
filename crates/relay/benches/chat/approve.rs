//! From an approval until what it allows happens: until the decision is answered, until the stream tells of the call, and until the tool's program
//! acts. That last one is the moment that counts; the program is a shell that writes to a named pipe which is read here.
//!
//! Beside it a bare request to the same server, a shell that is started by nobody but this program, and a synced write.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::figures::{Latencies, median};
use super::machine::{Others, this_process};
use super::reader::Reader;
use super::wire::Http;
use super::world::World;
use super::{Effort, millis, spread, synced_write};

/// The pipe that says that a program runs.
const STARTED: &str = "started";

/// What the tool runs.
const COMMAND: &str = "echo > started";

pub(crate) async fn run(effort: Effort) {
    let world = World::start("").await;
    let others = Others::watch(vec![world.server.process.clone(), this_process()]);
    let mut scene = Scene::new(&world).await;
    scene.approve().await;
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        let mut round: [Vec<Duration>; FIGURES.len()] = Default::default();
        for _ in 0..effort.calls {
            let [answered, told, acted] = scene.approve().await;
            let all = [
                scene.bare_request().await,
                scene.bare_shell().await,
                answered,
                told,
                acted,
            ];
            for (times, time) in round.iter_mut().zip(all) {
                times.push(time);
            }
        }
        rounds.push(round.map(Latencies::new));
    }
    println!(
        "\n## Approvals\n\n{} rounds of {} calls one after the other; others used {:.2} cores, {}\n",
        effort.rounds,
        effort.calls,
        others.cores(),
        synced_write(world.directory.path())
    );
    println!("| | p50 ms | p99 ms |\n|---|---|---|");
    for (at, figure) in FIGURES.iter().enumerate() {
        let of = |percent| {
            let all = rounds
                .iter()
                .map(|round| millis(round[at].percentile(percent)));
            all.collect::<Vec<_>>()
        };
        println!(
            "| {figure} | {} | {:.2} |",
            spread(&of(50.0), 2),
            median(&of(99.0))
        );
    }
}

const FIGURES: [&str; 5] = [
    "a bare request: `GET /models`",
    "a shell that is just started, until it acts",
    "approval to its answer",
    "approval to `tool_call` in the stream",
    "approval until the tool's shell acts",
];

/// A server, and somebody who decides.
struct Scene<'a> {
    world: &'a World,
    http: Http,
    started: pipe::Receiver,
}

impl<'a> Scene<'a> {
    async fn new(world: &'a World) -> Self {
        let path = world.directory.path().join("work").join(STARTED);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Also open for writing, so that it has no end between two programs.
        let started = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(path)
            .unwrap();
        let http = Http::connect(world.server.address, world.key()).await;
        Self {
            world,
            http: http.unwrap(),
            started,
        }
    }

    fn work(&self) -> std::path::PathBuf {
        self.world.directory.path().join("work")
    }

    /// One chat with one call: until the decision is answered, the call is told of, and its program acts.
    async fn approve(&mut self) -> [Duration; 3] {
        let mut reader = Reader::connect(self.world.server.address).await;
        let body = chat().to_string();
        reader.post("/chat", self.world.key(), &body).await;
        let connected = json_of(&reader.until(r#""type":"connected""#).await);
        let asked = json_of(&reader.until(r#""type":"relay""#).await);
        let path = format!("/chat/relay/{}", asked["id"].as_str().unwrap());
        let decision =
            json!({ "sessionId": connected["sessionId"], "response": { "approved": true } });
        let begun = Instant::now();
        let answered = async {
            self.http.call("POST", &path, &decision).await.unwrap();
            begun.elapsed()
        };
        let told = async {
            reader.until(r#""type":"tool_call""#).await;
            begun.elapsed()
        };
        let acted = async {
            self.started.read_u8().await.unwrap();
            begun.elapsed()
        };
        let (answered, told, acted) = tokio::join!(answered, told, acted);
        reader.until_the_end().await;
        [answered, told, acted]
    }

    async fn bare_request(&mut self) -> Duration {
        let begun = Instant::now();
        let answer = self.http.ask("GET", "/models", "").await.unwrap();
        assert_eq!(answer.status, 200);
        begun.elapsed()
    }

    async fn bare_shell(&mut self) -> Duration {
        let begun = Instant::now();
        let mut shell = shell(&self.work());
        self.started.read_u8().await.unwrap();
        let acted = begun.elapsed();
        shell.wait().await.unwrap();
        acted
    }
}

fn shell(directory: &Path) -> tokio::process::Child {
    Command::new("bash")
        .args(["--noprofile", "--norc", "-c", COMMAND])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A chat with the built-in script, in whose message there is another one.
fn chat() -> Value {
    let script = json!([[{ "tool": "bash", "arguments": { "command": COMMAND } }], "Done."]);
    let content = format!("script:{script}");
    json!({ "model": "scripted/demo", "messages": [{ "role": "user", "content": content }] })
}

fn json_of(data: &str) -> Value {
    serde_json::from_str(data).unwrap()
}
