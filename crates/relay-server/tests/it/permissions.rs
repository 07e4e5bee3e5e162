//! Permission requests over HTTP: who may do what, strict input, long polls, and what is started once.

use relay_protocol::permission::args_hash;
use relay_server::Config;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Answer, Client, Raw, World, soon};

/// Asks whether a command may run.
async fn ask(client: &Client, command: &str) -> Value {
    let body = json!({ "tool": "bash", "params": { "command": command } });
    client.post("/v1/permissions", body).await.expect(201)
}

fn path(record: &Value, rest: &str) -> String {
    let id = record["permissionId"].as_str().unwrap();
    format!("/v1/permissions/{id}{rest}")
}

/// Waits for a decision.
fn wait(client: &Client, record: &Value) -> JoinHandle<Answer> {
    let (client, path) = (client.clone(), path(record, "?wait=60"));
    tokio::spawn(async move { client.get(&path).await })
}

async fn human(world: &World, name: &str) -> Client {
    let body = json!({ "name": name, "type": "human" });
    let made = world.key.post("/v1/agents", body).await.expect(201);
    world.with(made["token"].as_str().unwrap())
}

/// The names of the events about permissions and grants, in order.
async fn told(world: &World) -> Vec<String> {
    let log = world
        .key
        .get("/v1/events?types=permission.*,grant.*&limit=200");
    let log = log.await.expect(200);
    let events = log["items"].as_array().unwrap();
    let names = events.iter().map(|event| event["type"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_waits_for_the_decision() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let asked = ask(&bob, "ls").await;
    assert_eq!(asked["state"], "pending");
    let (first, second) = (wait(&bob, &asked), wait(&world.key, &asked));
    let at_once = bob.get(&path(&asked, "?wait=0")).await.expect(200);
    assert_eq!(at_once["state"], "pending");
    let answer = json!({ "approved": true });
    let decided = world.key.post(&path(&asked, "/resolve"), answer).await;
    let decided = decided.expect(200);
    assert_eq!(decided["state"], "approved");
    for waiting in [first, second] {
        assert_eq!(waiting.await.unwrap().expect(200), decided);
    }
    // What is decided is answered at once, and stays readable.
    assert_eq!(wait(&bob, &asked).await.unwrap().expect(200), decided);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_ends_when_its_time_is_over_or_the_server_stops() {
    let mut world = World::start().await;
    let bob = world.agent("bob").await;
    let asked = ask(&bob, "ls").await;
    let brief = bob.get(&path(&asked, "?wait=1")).await.expect(200);
    assert_eq!(brief["state"], "pending");
    for odd in ["61", "-1", "1.5", "soon", ""] {
        let refused = bob.get(&path(&asked, &format!("?wait={odd}"))).await;
        assert_eq!(refused.refused(400), "invalid_request", "{odd}");
    }
    let waiting = wait(&bob, &asked);
    // By the time that these are answered the poll is there.
    for _ in 0..10 {
        world.nobody().get("/health").await.expect(200);
    }
    let stopped = world.stop();
    let answer = soon("the poll's end", waiting).await.unwrap();
    assert_eq!(answer.expect(200)["state"], "pending");
    soon("the server's end", stopped).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_after_a_restart_counts() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let asked = ask(&bob, "ls").await;
    let world = world.restart(Config::default()).await;
    let bob = world.with(bob.token.as_deref().unwrap());
    let waiting = wait(&bob, &asked);
    let answer = json!({ "approved": false, "reason": "not now", "stop": true });
    world
        .key
        .post(&path(&asked, "/resolve"), answer)
        .await
        .expect(200);
    let outcome = waiting.await.unwrap().expect(200)["outcome"].clone();
    assert_eq!(outcome["decision"], "denied");
    assert_eq!(
        (&outcome["reason"], &outcome["stop"]),
        (&json!("not now"), &json!(true))
    );
}

/// Bodies that are no answer. None of them is read as a yes, or as a no.
fn no_answers() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!("yes"),
        json!([]),
        json!([true]),
        json!({}),
        json!({ "approved": null }),
        json!({ "approved": "false" }),
        json!({ "approved": "true" }),
        json!({ "approved": 1 }),
        json!({ "approved": 0 }),
        json!({ "approved": [] }),
        json!({ "always": true }),
        json!({ "optionId": "allow_once" }),
        json!({ "approved": true, "always": "true" }),
        json!({ "approved": true, "always": 1 }),
        json!({ "approved": false, "stop": "false" }),
        json!({ "approved": true, "optionId": "nonsense" }),
        json!({ "approved": true, "optionId": 1 }),
        json!({ "approved": true, "optionId": "reject_once" }),
        json!({ "approved": false, "optionId": "allow_once" }),
        json!({ "approved": true, "extraField": 1 }),
        json!({ "approved": true, "Approved": false }),
        json!({ "approved": true, "updatedParams": "ls" }),
        json!({ "approved": true, "updatedParams": [] }),
        json!({ "approved": true, "always": true, "scope": "galaxy" }),
        json!({ "approved": true, "always": true, "grantExpiresInMs": -1 }),
        json!({ "approved": true, "always": true, "grantExpiresInMs": "60000" }),
        json!({ "approved": true, "reason": 1 }),
        json!({ "approved": true, "argsHash": 1 }),
        json!({ "response": { "approved": true } }),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_answer_changes_nothing() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let asked = ask(&bob, "ls").await;
    let before = told(&world).await;
    for body in no_answers() {
        let text = body.to_string();
        let raw = Raw::new("POST", &path(&asked, "/resolve"));
        let refused = world.key.ask(raw.body("application/json", text.clone()));
        assert_eq!(refused.await.refused(400), "invalid_request", "{text}");
        let now = bob.get(&path(&asked, "")).await.expect(200);
        assert_eq!(now, asked, "{text}");
    }
    for text in ["", "{", "approved=true", "{\"approved\":true}}", "\u{0}"] {
        let raw = Raw::new("POST", &path(&asked, "/resolve"));
        let refused = world.key.ask(raw.body("application/json", text)).await;
        assert_eq!(refused.refused(400), "invalid_request", "{text}");
    }
    let twice = r#"{"approved":false,"approved":true}"#;
    let raw = Raw::new("POST", &path(&asked, "/resolve")).body("application/json", twice);
    assert_eq!(world.key.ask(raw).await.refused(400), "invalid_request");
    assert_eq!(told(&world).await, before);
    assert_eq!(bob.get(&path(&asked, "")).await.expect(200), asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_about_another_call_is_none() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let (asked, other) = (ask(&bob, "ls").await, ask(&bob, "rm x").await);
    let answer = json!({ "approved": true, "argsHash": asked["argsHash"] });
    let resolve = path(&other, "/resolve");
    let refused = world.key.post(&resolve, answer.clone()).await;
    assert_eq!(refused.refused(409), "permission_not_granted");
    assert_eq!(bob.get(&path(&other, "")).await.expect(200), other);
    let decided = world.key.post(&path(&asked, "/resolve"), answer).await;
    assert_eq!(decided.expect(200)["state"], "approved");
    // A no for ever is no grant.
    let never = json!({ "approved": false, "always": true });
    let denied = world.key.post(&path(&other, "/resolve"), never).await;
    assert_eq!(denied.expect(200)["state"], "denied");
    let grants = world.key.get("/v1/grants").await.expect(200);
    assert_eq!(grants["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_question_is_not_asked() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let option = |kind: &str| json!([{ "optionId": "a", "kind": kind, "name": "A" }]);
    let asks = [
        json!(null),
        json!("bash"),
        json!([]),
        json!({}),
        json!({ "tool": "bash" }),
        json!({ "params": {} }),
        json!({ "tool": null, "params": {} }),
        json!({ "tool": "", "params": {} }),
        json!({ "tool": "bash", "params": null }),
        json!({ "tool": "bash", "params": "ls" }),
        json!({ "tool": "bash", "params": [] }),
        json!({ "tool": "bash", "params": {}, "extraField": 1 }),
        json!({ "tool": "bash", "params": {}, "expiresInMs": "60000" }),
        json!({ "tool": "bash", "params": {}, "expiresInMs": -1 }),
        json!({ "tool": "bash", "params": {}, "options": option("allow_twice") }),
        json!({ "tool": "bash", "params": {}, "options": [] }),
        json!({ "tool": "bash", "params": {}, "runId": "x" }),
    ];
    let posts = asks.into_iter().map(|body| ("/v1/permissions", body));
    let evaluations = [
        json!(null),
        json!({ "tool": "bash" }),
        json!({ "tool": "bash", "params": {}, "permissions": [] }),
    ];
    let evaluations = evaluations.map(|body| ("/v1/permissions/evaluate", body));
    let runs = [
        json!(null),
        json!([]),
        json!({ "permissions": { "allowlist": "bash" } }),
    ];
    let runs = runs.map(|body| ("/v1/permissions/runs", body));
    for (path, body) in posts.chain(evaluations).chain(runs) {
        let text = body.to_string();
        let raw = Raw::new("POST", path).body("application/json", text.clone());
        let refused = bob.ask(raw).await;
        assert_eq!(refused.status, 400, "{path} {text}: {}", refused.text());
    }
    assert_eq!(told(&world).await, Vec::<String>::new());
    let listed = world.key.get("/v1/permissions").await.expect(200);
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_is_no_body_of_the_other_steps_either() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let asked = ask(&bob, "ls").await;
    let yes = json!({ "approved": true });
    let decided = world.key.post(&path(&asked, "/resolve"), yes).await;
    let decided = decided.expect(200);
    let hash = &asked["argsHash"];
    let steps = [
        ("/start", json!(null)),
        ("/start", json!({})),
        ("/start", json!({ "argsHash": null })),
        ("/start", json!({ "argsHash": hash, "startId": 1 })),
        ("/start", json!({ "argsHash": hash, "extraField": 1 })),
        ("/finish", json!(null)),
        ("/finish", json!({})),
        ("/finish", json!({ "state": "done" })),
        ("/finish", json!({ "state": true })),
        ("/cancel", json!(null)),
        ("/cancel", json!({ "reason": 1 })),
        ("/seen", json!(null)),
        ("/seen", json!({ "by": "me" })),
    ];
    for (step, body) in steps {
        let raw = Raw::new("POST", &path(&asked, step)).body("application/json", body.to_string());
        let refused = bob.ask(raw).await;
        assert_eq!(refused.refused(400), "invalid_request", "{step} {body}");
    }
    assert_eq!(bob.get(&path(&asked, "")).await.expect(200), decided);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_decides_about_their_own_or_what_they_may_not_see() {
    let world = World::start().await;
    let (bob, eve) = (world.agent("bob").await, world.agent("eve").await);
    let observer = world.observer(json!({})).await;
    let asked = ask(&bob, "ls").await;
    let yes = json!({ "approved": true });
    let resolve = path(&asked, "/resolve");
    let own = bob.post(&resolve, yes.clone()).await;
    assert_eq!(own.refused(403), "forbidden");
    let others = eve.post(&resolve, yes.clone()).await;
    assert_eq!(others.refused(404), "unknown_permission");
    // It looks exactly like one that does not exist.
    let mut unknown = asked.clone();
    unknown["permissionId"] = json!("01963a5c-7893-7abc-8ef0-123456789abc");
    let nothing = eve.post(&path(&unknown, "/resolve"), yes.clone()).await;
    let sentence = |answer: &Answer, record: &Value| {
        let id = record["permissionId"].as_str().unwrap();
        answer.text().replace(id, "…")
    };
    assert_eq!(sentence(&others, &asked), sentence(&nothing, &unknown));
    for rest in ["/seen", "/cancel"] {
        let refused = eve.post(&path(&asked, rest), json!({})).await;
        assert_eq!(refused.refused(404), "unknown_permission", "{rest}");
    }
    let hash = json!({ "argsHash": asked["argsHash"] });
    let refused = eve.post(&path(&asked, "/start"), hash).await;
    assert_eq!(refused.refused(404), "unknown_permission");
    assert_eq!(
        eve.get(&path(&asked, "?wait=60")).await.refused(404),
        "unknown_permission"
    );
    assert_eq!(
        observer.post(&resolve, yes.clone()).await.refused(403),
        "forbidden"
    );
    let key_asks = json!({ "tool": "bash", "params": {} });
    let key_asks = world.key.post("/v1/permissions", key_asks).await;
    assert_eq!(key_asks.refused(403), "forbidden");
    let pending = bob.get(&path(&asked, "")).await.expect(200);
    assert_eq!(pending["state"], "pending");
    let refusals = told(&world).await;
    assert!(refusals.contains(&"permission.refused".to_owned()));

    let ann = human(&world, "ann").await;
    ann.post(&path(&asked, "/seen"), json!({}))
        .await
        .expect(200);
    let decided = ann.post(&resolve, yes).await.expect(200);
    assert_eq!(
        decided["outcome"]["by"],
        json!({ "kind": "human", "name": "ann" })
    );
    assert!(told(&world).await.contains(&"permission.seen".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_second_is_told_who_was_first() {
    let world = World::start().await;
    let (bob, ann) = (world.agent("bob").await, human(&world, "ann").await);
    let asked = ask(&bob, "ls").await;
    let resolve = path(&asked, "/resolve");
    let no = json!({ "approved": false, "reason": "no", "responseId": "r1" });
    let first = ann.post(&resolve, no.clone()).await.expect(200);
    let late = world.key.post(&resolve, json!({ "approved": true })).await;
    assert_eq!(late.refused(409), "permission_resolved");
    assert_eq!(late.json()["outcome"], first["outcome"]);
    assert_eq!(first["outcome"]["by"]["name"], "ann");
    // The same answer again is the same answer; another under its id is none.
    assert_eq!(ann.post(&resolve, no.clone()).await.expect(200), first);
    let mut other = no.clone();
    other["approved"] = json!(true);
    let conflict = ann.post(&resolve, other).await;
    assert_eq!(conflict.status, 409, "{}", conflict.text());
    let mut unnamed = no;
    unnamed.as_object_mut().unwrap().remove("responseId");
    let again = ann.post(&resolve, unnamed).await;
    assert_eq!(again.refused(409), "permission_resolved");
    let ends = told(&world).await;
    let ends = ends.iter().filter(|name| *name == "permission.resolved");
    assert_eq!(ends.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_allowed_starts_once_and_as_it_was_allowed() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let asked = ask(&bob, "ls").await;
    let start = path(&asked, "/start");
    let hash = &asked["argsHash"];
    let go = json!({ "argsHash": hash, "startId": "s1" });
    let early = bob.post(&start, go.clone()).await;
    assert_eq!(early.refused(409), "permission_not_granted");
    let edited = json!({ "approved": true, "updatedParams": { "command": "ls -l" } });
    let resolve = path(&asked, "/resolve");
    world.key.post(&resolve, edited).await.expect(200);
    let unedited = bob.post(&start, go).await;
    assert_eq!(unedited.refused(409), "permission_not_granted");
    let params = json!({ "command": "ls -l" });
    let hash = args_hash("bash", params.as_object().unwrap());
    let go = |id: &str| json!({ "argsHash": hash, "startId": id });
    let started = bob.post(&start, go("s1")).await.expect(200);
    assert_eq!(started["execution"]["state"], "started");
    assert_eq!(bob.post(&start, go("s1")).await.expect(200), started);
    let twice = bob.post(&start, go("s2")).await;
    assert_eq!(twice.refused(409), "already_started");
    let end = path(&asked, "/finish");
    let done = json!({ "state": "completed" });
    let finished = bob.post(&end, done.clone()).await.expect(200);
    assert_eq!(finished["execution"]["state"], "completed");
    assert_eq!(bob.post(&end, done).await.expect(200), finished);
    let twice = bob.post(&start, go("s1")).await;
    assert_eq!(twice.refused(409), "already_started");
    let expected = [
        "permission.requested",
        "permission.resolved",
        "permission.started",
        "permission.finished",
    ];
    assert_eq!(told(&world).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_call_is_asked_about_once() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let body = |command: &str| json!({ "tool": "bash", "params": { "command": command }, "toolCallId": "call_1" });
    let first = bob.post("/v1/permissions", body("ls")).await.expect(201);
    let again = bob.post("/v1/permissions", body("ls")).await.expect(201);
    assert_eq!(again, first);
    let other = bob.post("/v1/permissions", body("rm -rf /")).await;
    assert_eq!(other.status, 409, "{}", other.text());
    assert_eq!(told(&world).await, ["permission.requested"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_asked_about_through_a_session_of_ones_own() {
    let world = World::start().await;
    let (bob, eve) = (world.agent("bob").await, world.agent("eve").await);
    let mut socket = bob.socket().await;
    let session = socket.attach("bob").await;
    let through = |session: &str| {
        let body = json!({ "tool": "bash", "params": { "command": "ls" } });
        Raw::new("POST", "/v1/permissions")
            .header("relay-session", session)
            .body("application/json", body.to_string())
    };
    let id = session.as_str().unwrap();
    let asked = bob.ask(through(id)).await.expect(201);
    assert_eq!(asked["sessionId"], session);
    let refused = eve.ask(through(id)).await;
    assert_eq!(refused.refused(404), "unknown_session");
    let refused = bob.ask(through("nonsense")).await;
    assert_eq!(refused.refused(400), "invalid_request");
    let mut socket = eve.socket().await;
    let foreign = socket.attach("eve").await;
    let refused = bob.ask(through(foreign.as_str().unwrap())).await;
    assert_eq!(refused.refused(404), "unknown_session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered_and_paged() {
    let world = World::start().await;
    let (bob, eve) = (world.agent("bob").await, world.agent("eve").await);
    let observer = world.observer(json!({})).await;
    let mut asked = Vec::new();
    for (client, command) in [(&bob, "a"), (&bob, "b"), (&eve, "c"), (&bob, "d")] {
        asked.push(ask(client, command).await);
    }
    let no = json!({ "approved": false });
    world
        .key
        .post(&path(&asked[1], "/resolve"), no)
        .await
        .expect(200);
    let ids = async |client: &Client, query: &str| {
        let page = client.get(&format!("/v1/permissions{query}")).await;
        let page = page.expect(200);
        let items = page["items"].as_array().unwrap().clone();
        let place = |item: &Value| {
            let id = &item["permissionId"];
            let at = asked.iter().position(|asked| asked["permissionId"] == *id);
            at.unwrap()
        };
        let places: Vec<usize> = items.iter().map(place).collect();
        (places, page["nextCursor"].as_str().map(str::to_owned))
    };
    assert_eq!(ids(&world.key, "").await.0, [3, 2, 1, 0]);
    assert_eq!(ids(&observer, "").await.0, [3, 2, 1, 0]);
    assert_eq!(ids(&bob, "").await.0, [3, 1, 0]);
    assert_eq!(ids(&eve, "?agent=eve").await.0, [2]);
    assert_eq!(ids(&world.key, "?state=denied").await.0, [1]);
    assert_eq!(ids(&world.key, "?agent=bob&state=pending").await.0, [3, 0]);
    let (first, cursor) = ids(&world.key, "?limit=3").await;
    assert_eq!(first, [3, 2, 1]);
    let rest = format!("?limit=3&cursor={}", cursor.unwrap());
    assert_eq!(ids(&world.key, &rest).await, (vec![0], None));
    for odd in ["state=maybe", "session=x", "approved=true", "limit=0"] {
        let refused = world.key.get(&format!("/v1/permissions?{odd}")).await;
        assert_eq!(refused.status, 400, "{odd}: {}", refused.text());
    }
    // An observer without the right sees that something is asked, and not what.
    let seen = observer.get(&path(&asked[0], "")).await.expect(200);
    assert_eq!(seen["params"], json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_holds_until_it_is_revoked() {
    let world = World::start().await;
    let (bob, ann) = (world.agent("bob").await, human(&world, "ann").await);
    let (first, waiting) = (ask(&bob, "ls -l").await, ask(&bob, "ls -a").await);
    let rule = first["suggestions"][0]["rule"].clone();
    let always = json!({ "approved": true, "always": true, "scope": "agent" });
    let decided = ann.post(&path(&first, "/resolve"), always).await;
    let grant = decided.expect(200)["outcome"]["grantId"].clone();
    // What waited is covered, and so is what comes.
    let covered = wait(&bob, &waiting).await.unwrap().expect(200);
    assert_eq!(
        (&covered["state"], &covered["outcome"]["grantId"]),
        (&json!("approved"), &grant)
    );
    assert_eq!(ask(&bob, "ls -h").await["state"], "approved");
    let grants = bob.get("/v1/grants?agent=bob").await.expect(200);
    let listed = &grants["items"][0];
    assert_eq!((&listed["rule"], &listed["grantId"]), (&rule, &grant));
    let one = format!("/v1/grants/{}", grant.as_str().unwrap());
    assert_eq!(bob.delete(&one).await.refused(403), "forbidden");
    let revoked = ann.delete(&one).await.expect(200);
    assert_eq!(revoked["revokedBy"]["name"], "ann");
    assert_eq!(ann.delete(&one).await.expect(200), revoked);
    assert_eq!(ask(&bob, "ls -h").await["state"], "pending");
    let now = bob.get("/v1/grants").await.expect(200);
    assert_eq!(now["items"], json!([]));
    let all = bob.get("/v1/grants?ended=true").await.expect(200);
    assert_eq!(all["items"][0]["grantId"], grant);
    let odd = bob.get("/v1/grants?ended=1").await;
    assert_eq!(odd.refused(400), "invalid_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_narrow_and_end() {
    let world = World::start().await;
    let (bob, eve) = (world.agent("bob").await, world.agent("eve").await);
    let rules = json!({ "permissions": { "allowlist": ["bash:ls *"], "deny": ["bash:rm *"] } });
    let parent = bob.post("/v1/permissions/runs", rules).await.expect(201);
    let wider = json!({ "parentRunId": parent["runId"], "permissions": { "allowlist": ["bash"] } });
    let child = bob.post("/v1/permissions/runs", wider).await.expect(201);
    assert_eq!(
        (&child["depth"], &child["parentRunId"]),
        (&json!(1), &parent["runId"])
    );
    let evaluate = async |command: &str| {
        let call =
            json!({ "tool": "bash", "params": { "command": command }, "runId": child["runId"] });
        let said = bob.post("/v1/permissions/evaluate", call).await;
        said.expect(200)["decision"].clone()
    };
    assert_eq!(evaluate("ls /").await, "allow");
    assert_eq!(evaluate("rm x").await, "deny");
    assert_eq!(evaluate("cat x").await, "ask");
    let body = json!({ "tool": "bash", "params": { "command": "cat x" }, "runId": child["runId"] });
    let asked = bob.post("/v1/permissions", body).await.expect(201);
    let run = format!("/v1/permissions/runs/{}", parent["runId"].as_str().unwrap());
    assert_eq!(eve.get(&run).await.refused(404), "unknown_run");
    assert_eq!(eve.delete(&run).await.refused(404), "unknown_run");
    let ended = bob.delete(&format!("{run}?reason=done")).await.expect(200);
    assert!(ended["endedAt"].is_string(), "{ended}");
    let cancelled = wait(&bob, &asked).await.unwrap().expect(200);
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(cancelled["outcome"]["reason"], "done");
}
