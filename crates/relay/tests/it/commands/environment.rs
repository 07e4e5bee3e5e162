//! What commands take from the environment, and `relay env`.

use serde_json::Value;

use crate::support::{Desk, Setup, finish, text};

#[tokio::test]
async fn relay_url_with_as_uses_the_token_that_is_kept_for_that_server() {
    let (desk, other) = (Desk::new().await, Desk::new().await);
    let here = Setup::new();
    let elsewhere = here.data();
    let command = |url: &str, arguments: &[&str]| {
        let mut command = here.relay();
        command.args(arguments).arg("--data").arg(&elsewhere);
        command.env("RELAY_URL", url);
        command
    };
    let url = &desk.server.url;
    let mut register = command(url, &["agent", "register", "bob"]);
    let done = finish(register.env("RELAY_TOKEN", &desk.server.key)).await;
    assert_eq!(done.code, 0, "{done:?}");
    let inbox = ["inbox", "--as", "bob"];
    let done = finish(&mut command(url, &inbox)).await;
    assert_eq!(
        (done.code, done.out.as_str()),
        (0, "nothing unread\n"),
        "{done:?}"
    );
    let done = finish(&mut command(&format!("{url}/"), &inbox)).await;
    assert_eq!(done.code, 0, "{done:?}");
    // It goes to no other server, and nobody else's token is there.
    for (url, agent) in [(&other.server.url, "bob"), (url, "eve")] {
        let done = finish(&mut command(url, &["inbox", "--as", agent])).await;
        assert_eq!(done.code, 5, "{done:?}");
        let expected = format!(
            "relay: expected a token of @{agent} for the server at {url} in {}, found none\n",
            elsewhere.join("agents").display()
        );
        assert!(done.err.starts_with(&expected), "{done:?}");
    }
    // The server of the data directory is known without that its address was kept.
    desk.register(&["ada"]).await;
    let mut command = desk.command(&["inbox", "--as", "ada"]);
    let done = finish(command.env("RELAY_URL", url)).await;
    assert_eq!(done.code, 0, "{done:?}");
}

#[tokio::test]
async fn env_prints_what_a_program_needs() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let shown = desk.run(&["env", "--as", "ada"]).await;
    let token = desk.json(&["token", "show", "--as", "ada"]).await;
    let expected = format!(
        "export RELAY_URL={}\nexport RELAY_TOKEN={}\n",
        desk.server.url,
        token["token"].as_str().unwrap()
    );
    assert_eq!((shown.code, shown.out.as_str()), (0, expected.as_str()));
    let variables = desk.json(&["env", "--as", "ada"]).await;
    let variables: Vec<(&String, &str)> = variables
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value): (&String, &Value)| (name, value.as_str().unwrap()))
        .collect();
    let mut command = desk.setup.relay();
    let done = finish(command.arg("inbox").envs(variables)).await;
    assert_eq!(
        (done.code, done.out.as_str()),
        (0, "nothing unread\n"),
        "{done:?}"
    );
    let key = desk.json(&["env"]).await;
    assert_eq!(key["RELAY_TOKEN"], desk.server.key);
}

#[tokio::test]
async fn a_misspelt_setting_is_refused_with_the_nearest_name() {
    let setup = Setup::new().with("RELAY_SERVER_DRAINS", "3");
    let data = setup.data();
    for arguments in [&["config", "show"][..], &["serve"], &["up"]] {
        let mut command = setup.relay();
        command.args(arguments).args(["--data", text(&data)]);
        let done = finish(&mut command).await;
        assert_eq!(done.code, 1, "{done:?}");
        let expected = "relay: RELAY_SERVER_DRAINS is no setting of Relay and no variable that it reads; the nearest \
                        are RELAY_SERVER_DRAIN_S";
        assert!(done.err.starts_with(expected), "{done:?}");
    }
}
