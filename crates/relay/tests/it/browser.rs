//! A page in a real browser uses the socket; a page from somewhere else is refused.
//!
//! The page comes from a little server in this process, where it also leaves what it found out.

mod pages;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use self::pages::Pages;
use crate::support::{Server, Setup, installed, soon};

/// What the browser is called, in the order in which it is looked for.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The script of the page that may.
const FRIEND: &str = r##"
import { Relay } from "./relay.js";
const relay = await Relay.connect(SERVER, TOKEN);
const event = new Promise((resolve) => (relay.onevent = resolve));
const deliver = new Promise((resolve) => (relay.ondeliver = (...parts) => resolve(parts)));
const subscribed = await relay.subscribe("all", "message.*");
const attached = await relay.attach("ada");
await tell({ ready: subscribed.type + " " + attached.type });
const { type } = await event;
const [message, context] = await deliver;
const { result } = await relay.delivered(context);
await tell({ event: type, text: message.text, from: message.from.name, state: result.state });
"##;

/// The script of the page that may not.
const STRANGER: &str = r##"
import { Relay } from "./relay.js";
const socket = await Relay.connect(SERVER, TOKEN).then(() => "open", (error) => error.message);
const headers = { Authorization: "Bearer " + TOKEN };
const call = await fetch(SERVER + "/v1/me", { headers }).then(() => "read", () => "refused");
// What needs no permission is sent, and has to come to nothing.
const form = new URLSearchParams({ name: "mallory" });
await fetch(SERVER + "/v1/agents", { method: "POST", mode: "no-cors", body: form }).catch(() => {});
await tell({ socket, call });
"##;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_listens_and_is_an_agents_session() {
    let Some(browser) = browser() else { return };
    let mut pages = Pages::serve().await;
    let mut setup = Setup::new().with("RELAY_SERVER_ALLOWED_ORIGINS", &pages.origin);
    let server = setup.start().await;
    let relay = server.relay();
    let ada = relay.register("ada").await.unwrap();
    let bob = relay.register("bob").await.unwrap();
    pages.show(&script(FRIEND, &server, ada.token()));
    let _open = open(&browser, &setup, &pages);
    assert_eq!(told(&mut pages).await, json!({ "ready": "ok attached" }));
    let sent = bob.send_message("@ada", "Hello, page").await.unwrap();
    let expected = json!({
        "event": "message.created", "text": "Hello, page", "from": "bob", "state": "delivered",
    });
    assert_eq!(told(&mut pages).await, expected);
    let id = sent.deliveries[0].delivery_id;
    let delivery = bob.delivery(id).await.unwrap();
    assert_eq!(delivery.state.as_str(), "delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_from_elsewhere_is_refused() {
    let Some(browser) = browser() else { return };
    let mut pages = Pages::serve().await;
    let mut setup = Setup::new().with("RELAY_SERVER_ALLOWED_ORIGINS", "https://page.example");
    let server = setup.start().await;
    let ada = server.relay().register("ada").await.unwrap();
    pages.show(&script(STRANGER, &server, ada.token()));
    let _open = open(&browser, &setup, &pages);
    let expected = json!({ "socket": "closed: 1006 ", "call": "refused" });
    assert_eq!(told(&mut pages).await, expected);
    assert!(server.relay().agent("mallory").await.is_err());
}

/// The browser, if there is one.
fn browser() -> Option<PathBuf> {
    installed("browser", BROWSERS, "--version")
}

/// A script with what it has to know.
fn script(text: &str, server: &Server, token: &str) -> String {
    let known = format!(
        "const SERVER = {}; const TOKEN = {};",
        json!(server.url),
        json!(token)
    );
    format!(
        "{known}\nconst tell = (what) => fetch('/told', {{ method: 'POST', body: JSON.stringify(what) }});\n{text}"
    )
}

fn open(browser: &PathBuf, setup: &Setup, pages: &Pages) -> Child {
    let profile = setup.file("profile");
    Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-sync",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("{}/test.html", pages.origin))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// What the page says next.
async fn told(pages: &mut Pages) -> Value {
    let told = soon("word from the page", pages.told.recv());
    let told = tokio::time::timeout(Duration::from_secs(100), told).await;
    serde_json::from_str(&told.unwrap().unwrap()).unwrap()
}
