//! `relay serve`: what it says, writes, refuses, and how it ends.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use relay_sdk::protocol::api::messages::SearchQuery;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::support::{Server, Setup, output, soon};

fn credentials(setup: &Setup) -> Value {
    let text = std::fs::read(setup.data().join("credentials.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What a command says that has to fail.
async fn refused(command: &mut Command) -> String {
    let output = output(command).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8(output.stderr).unwrap();
    said.strip_prefix("relay: ").unwrap().trim_end().to_owned()
}

/// Waits until a new server has credentials of its own, whatever it says.
async fn announced(setup: &Setup) -> Value {
    let path = setup.data().join("credentials.json");
    soon("the credentials", async {
        while !path.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    credentials(setup)
}

#[tokio::test]
async fn it_says_where_it_is_and_lets_its_owner_in() {
    let mut setup = Setup::new();
    let server = setup.start().await;
    let (data, url) = (setup.data().display().to_string(), &server.url);
    let expected = format!(
        "relay {} is ready\nurl          {url}\ndata         {data}\ncredentials  {data}/credentials.json\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(server.said, expected);
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with(":0"));
    let credentials = credentials(&setup);
    let names: Vec<&String> = credentials.as_object().unwrap().keys().collect();
    assert_eq!(names, ["url", "adminKey", "workspaceId", "workspaceKey"]);
    assert!(credentials["adminKey"].as_str().unwrap().starts_with("ak_"));
    assert!(server.key.starts_with("rk_"));
    let workspace = server.relay().workspace().await.unwrap();
    assert_eq!(json!(workspace.workspace_id), credentials["workspaceId"]);
    assert_eq!(workspace.name, "default");
}

#[tokio::test]
async fn what_it_keeps_is_for_its_owner_only() {
    let mut setup = Setup::new();
    // Even in a directory that others can look into.
    std::fs::create_dir(setup.data()).unwrap();
    std::fs::set_permissions(setup.data(), PermissionsExt::from_mode(0o755)).unwrap();
    let server = setup.start().await;
    server.relay().register("ada").await.unwrap();
    // Whoever looks for something has it indexed first.
    let query = SearchQuery {
        q: "word".to_owned(),
        ..SearchQuery::default()
    };
    server.relay().search(&query).await.unwrap();
    for name in [
        "credentials.json",
        "relay.db",
        "relay.db-wal",
        "relay.db-shm",
        "relay.db.search",
    ] {
        assert_eq!(mode(&setup.data().join(name)), 0o600, "{name}");
    }
    // A directory that it makes is closed from the start.
    let mut fresh = Setup::new();
    let _server = fresh.start().await;
    assert_eq!(mode(&fresh.data()), 0o700);
}

#[tokio::test]
async fn the_keys_stay_the_same() {
    let mut setup = Setup::new();
    let server = setup.start().await;
    let first = credentials(&setup);
    server.relay().register("ada").await.unwrap();
    server.kill().await;
    // A rest of a start that was killed does no harm, whoever may read it.
    let rest = setup.data().join("credentials.tmp");
    std::fs::write(&rest, "half").unwrap();
    std::fs::set_permissions(&rest, PermissionsExt::from_mode(0o644)).unwrap();
    let server = setup.start().await;
    assert_eq!(credentials(&setup), first);
    assert_eq!(mode(&setup.data().join("credentials.json")), 0o600);
    assert_eq!(server.relay().agent("ada").await.unwrap().name, "ada");
    server.terminate();
    assert!(server.end().await.success());
    // Elsewhere only the place is another one.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut command = setup.serve();
    command.arg("--listen").arg(&elsewhere);
    let _server = Server::start(command, &setup.data(), setup.file("log")).await;
    let mut expected = first;
    expected["url"] = json!(format!("http://{elsewhere}"));
    assert_eq!(credentials(&setup), expected);
}

#[tokio::test]
async fn two_servers_do_not_share_data() {
    let mut setup = Setup::new();
    let server = setup.start().await;
    let before = credentials(&setup);
    let said = refused(setup.serve().args(["--listen", "127.0.0.1:0"])).await;
    let database = setup.data().join("relay.db");
    let expected = format!(
        "{} is in use by process {}; stop that one, or use another data directory",
        database.display(),
        server.id()
    );
    assert_eq!(said, expected);
    assert_eq!(credentials(&setup), before);
    server.relay().workspace().await.unwrap();
}

#[tokio::test]
async fn a_port_that_is_taken_leaves_nothing_behind() {
    let mut setup = Setup::new();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = refused(setup.serve().args(["--listen", &address])).await;
    let expected =
        format!("can't listen on {address}; choose another address with --listen: Address already");
    assert!(said.starts_with(&expected), "{said}");
    // The next start is the first one.
    setup.start().await.relay().workspace().await.unwrap();
}

#[tokio::test]
async fn lost_credentials_are_not_made_up() {
    let mut setup = Setup::new();
    let server = setup.start().await;
    let old = server.key.clone();
    server.kill().await;
    std::fs::remove_file(setup.data().join("credentials.json")).unwrap();
    let said = refused(setup.serve().args(["--listen", "127.0.0.1:0"])).await;
    assert!(
        said.contains("credentials.json is not, so nobody could get in"),
        "{said}"
    );
    assert!(said.contains("--new-workspace"), "{said}");
    let mut command = setup.serve();
    command.args(["--listen", "127.0.0.1:0", "--new-workspace"]);
    let server = Server::start(command, &setup.data(), setup.file("log")).await;
    assert_ne!(server.key, old);
    server.relay().workspace().await.unwrap();
    server.kill().await;
    // What is not what it wrote is not overwritten.
    std::fs::write(setup.data().join("credentials.json"), "{}").unwrap();
    let said = refused(setup.serve().args(["--listen", "127.0.0.1:0"])).await;
    assert!(
        said.contains("credentials.json is not what Relay wrote"),
        "{said}"
    );
}

#[tokio::test]
async fn a_setting_that_can_not_be_used_is_named() {
    let setup = Setup::new();
    std::fs::create_dir(setup.data()).unwrap();
    let file = setup.data().join("relay.toml");
    for (text, line, expected) in [
        (
            "[server]\n\n# How many.\nconnections = \"many\"\n",
            4,
            "server.connections has to be of type integer; found \"many\", which is of type string",
        ),
        (
            "[server]\nconections = 1\n",
            2,
            "there is no setting server.conections; the nearest are server.connections",
        ),
        (
            "[log]\nformat = \"xml\"\n",
            2,
            "log.format: unknown variant `xml`, expected `text` or `json`",
        ),
        (
            "[log]\nfilter = \"relay=loud\"\n",
            2,
            "log.filter = \"relay=loud\" can't be used",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = refused(setup.serve().env_remove("RELAY_LOG_FILTER")).await;
        let expected = format!("{}:{line}: {expected}", file.display());
        assert!(said.starts_with(&expected), "{said}");
    }
    std::fs::write(&file, "[server\n").unwrap();
    let said = refused(&mut setup.serve()).await;
    assert!(
        said.starts_with(&format!("{} is not TOML", file.display())),
        "{said}"
    );
    assert!(said.contains("line 1"), "{said}");
    let missing = setup.file("nowhere.toml");
    let said = refused(setup.serve().arg("--config").arg(&missing)).await;
    assert!(
        said.starts_with(&format!("{} can't be read", missing.display())),
        "{said}"
    );
    // Nothing of this began anything.
    assert!(!setup.data().join("relay.db").exists());
}

#[tokio::test]
async fn flags_win_over_the_environment_and_that_over_the_file() {
    let said = |setup: &Setup, arguments: &[&str]| {
        let mut command = setup.serve();
        command.args(arguments);
        async move { refused(&mut command).await }
    };
    // What can't be used says by its name which one was taken.
    let setup = Setup::new();
    std::fs::create_dir(setup.data()).unwrap();
    let text = "[server]\nlisten = \"from-file\"\n";
    std::fs::write(setup.data().join("relay.toml"), text).unwrap();
    let other = setup.file("other.toml");
    std::fs::write(&other, text.replace("file", "other")).unwrap();
    assert!(
        said(&setup, &[])
            .await
            .contains("can't listen on from-file")
    );
    let arguments = ["--config", other.to_str().unwrap()];
    assert!(
        said(&setup, &arguments)
            .await
            .contains("can't listen on from-other")
    );
    let setup = setup.with("RELAY_SERVER_LISTEN", "from-environment");
    assert!(
        said(&setup, &arguments)
            .await
            .contains("can't listen on from-environment")
    );
    let arguments = ["--listen", "from-flag"];
    assert!(
        said(&setup, &arguments)
            .await
            .contains("can't listen on from-flag")
    );
    // The data directory, too.
    let mut command = setup.relay();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("RELAY_DATA", setup.file("elsewhere"));
    let _server = Server::start(command, &setup.file("elsewhere"), setup.file("log")).await;
    assert!(!setup.data().join("relay.db").exists());
}

#[tokio::test]
async fn it_ends_in_order_when_it_is_told_to() {
    for interrupt in [false, true] {
        let mut setup = Setup::new();
        let server = setup.start().await;
        // A request that has begun, and a connection that has nothing to say.
        let _idle = TcpStream::connect(server.address).await.unwrap();
        let mut begun = TcpStream::connect(server.address).await.unwrap();
        let body = "{\"name\":\"ada\"}";
        let head = format!(
            "POST /v1/agents HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
            server.address,
            server.key,
            body.len()
        );
        begun.write_all(head.as_bytes()).await.unwrap();
        let mut buffer = [0; 1024];
        let read = soon("the go-ahead", begun.read(&mut buffer)).await.unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 100"));
        match interrupt {
            true => server.interrupt(),
            false => server.terminate(),
        }
        // It takes nobody new.
        soon("the closed door", async {
            while TcpStream::connect(server.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        begun.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        soon("the answer", begun.read_to_string(&mut answer))
            .await
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        assert_eq!(server.end().await.code(), Some(0));
        let server = setup.start().await;
        server.relay().agent("ada").await.unwrap();
    }
}

#[tokio::test]
async fn a_signal_at_the_very_beginning_is_obeyed_in_order() {
    // Again and again, since it is a question of moments.
    for _ in 0..5 {
        let mut setup = Setup::new();
        let server = setup.start().await;
        server.terminate();
        assert_eq!(server.end().await.code(), Some(0));
    }
}

#[tokio::test]
async fn it_goes_on_when_nobody_listens_to_it() {
    let setup = Setup::new();
    let mut command = setup.serve();
    command.args(["--listen", "127.0.0.1:0"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let url = announced(&setup).await["url"].as_str().unwrap().to_owned();
    let key = credentials(&setup)["workspaceKey"]
        .as_str()
        .unwrap()
        .to_owned();
    let relay = relay_sdk::Relay::open(&url, &key).await.unwrap();
    relay.register("ada").await.unwrap();
    assert!(child.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn it_takes_as_many_files_as_it_may() {
    let setup = Setup::new();
    let mut command = setup.relay();
    let program = command.as_std().get_program().to_owned();
    let data = setup.data();
    command = Command::new("/bin/sh");
    command
        .args(["-c", "ulimit -Sn 64 && exec \"$@\"", "sh"])
        .arg(program);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data);
    let server = Server::start(command, &data, setup.file("log")).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let mut lines = limits.lines();
    let line = lines
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap();
    let numbers: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
    server.kill().await;
}

#[tokio::test]
async fn help_says_what_can_be_told() {
    let setup = Setup::new();
    let help = output(setup.relay().args(["serve", "--help"])).await;
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    for expected in [
        "Run a server until it is told to stop",
        "--data <DIR>",
        "[env: RELAY_DATA=]",
        "[default: 127.0.0.1:4000]",
        "--config <FILE>",
        "--new-workspace",
    ] {
        assert!(help.contains(expected), "{help}");
    }
    let version = output(setup.relay().arg("--version")).await;
    let version = String::from_utf8(version.stdout).unwrap();
    let expected = format!("relay {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&expected), "{version}");
    assert!(version.ends_with(", protocol 1)\n"), "{version}");
    let nothing = output(&mut setup.relay()).await;
    assert_eq!(nothing.status.code(), Some(2));
    assert!(
        String::from_utf8(nothing.stderr)
            .unwrap()
            .contains("serve        Run a server")
    );
    let unknown = output(setup.relay().args(["serve", "--lisen", "x"])).await;
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8(unknown.stderr)
            .unwrap()
            .contains("--listen")
    );
}

/// It said that it was ready, and ended a moment later.
#[tokio::test]
async fn it_is_ready_only_once_everything_is_built() {
    let setup = Setup::new();
    std::fs::create_dir(setup.data()).unwrap();
    let file = setup.data().join("relay.toml");
    for (text, expected) in [
        (
            "[providers.a]\nkind = \"openai\"\nbase_url = \"nonsense\"\n",
            "providers.a: base_url: ",
        ),
        (
            "[chat]\ndirectory = \"/there/is/no/such/place\"\n",
            "chat.directory: ",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        for start in ["serve", "up"] {
            let mut command = setup.relay();
            command.args([start, "--listen", "127.0.0.1:0", "--data"]);
            let said = refused(command.arg(setup.data())).await;
            assert!(said.starts_with(expected), "{start}: {said}");
        }
    }
}

/// The whole server ended because of one key.
#[tokio::test]
async fn a_provider_without_its_key_is_left_out_with_a_warning() {
    let mut setup = Setup::new();
    std::fs::create_dir(setup.data()).unwrap();
    let text = "[providers.far]\nkind = \"openai\"\nkey_env = \"NO_SUCH_KEY\"\nmodels = [\"m\"]\n";
    std::fs::write(setup.data().join("relay.toml"), text).unwrap();
    let why = "providers.far is left out: the environment has no variable NO_SUCH_KEY with its key";
    let server = setup.start().await;
    let log = std::fs::read_to_string(setup.file("log")).unwrap();
    assert!(log.contains(why), "{log}");
    let run = async |arguments: &[&str]| {
        let mut command = setup.relay();
        let done = output(command.args(arguments).arg("--data").arg(setup.data())).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(done.stdout), text(done.stderr))
    };
    for command in [["chat", "--models"], ["config", "show"]] {
        let (_, noted) = run(&command).await;
        assert!(noted.starts_with(&format!("warning: {why}")), "{noted}");
        let (found, _) = run(&[&command[..], &["--json"]].concat()).await;
        let found: Value = serde_json::from_str(&found).unwrap();
        let warning = found["warnings"][0].as_str().unwrap();
        assert!(warning.starts_with(why), "{found}");
    }
    let (found, _) = run(&["chat", "--models"]).await;
    assert!(
        found.contains("scripted/demo") && !found.contains("far/m"),
        "{found}"
    );
    let (found, _) = run(&["doctor"]).await;
    assert!(found.contains(why), "{found}");
    drop(server);
}
