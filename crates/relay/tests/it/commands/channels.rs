//! `relay channel`: everything that can be done with one.

use crate::support::Desk;

#[tokio::test]
async fn a_channel_from_its_beginning_to_its_end() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let made = desk
        .ok(&["channel", "create", "ops", "--topic", "What runs where"])
        .await;
    assert_eq!(made, "created #ops, 0 members\n");
    let expected = "channel   members  topic\n#general  2\n#ops      0        What runs where\n";
    assert_eq!(desk.ok(&["channel", "list"]).await, expected);
    assert_eq!(
        desk.json(&["channel", "list"]).await["items"][1]["name"],
        "ops"
    );
    assert_eq!(
        desk.ok(&["channel", "join", "#ops", "--as", "ada"]).await,
        "joined #ops, 1 member\n"
    );
    assert_eq!(
        desk.ok(&["channel", "invite", "ops", "@bob"]).await,
        "invited to #ops, 2 members\n"
    );
    let expected =
        "channel  #ops\ntopic    What runs where\ncreated  TIME ago\nmembers  @ada @bob\n";
    assert_eq!(desk.ok(&["channel", "show", "ops"]).await, expected);
    let shown = desk.json(&["channel", "show", "ops"]).await;
    assert_eq!(shown["members"][1]["agent"]["name"], "bob");
    assert_eq!(
        desk.ok(&["channel", "messages", "ops"]).await,
        "no messages yet\n"
    );
    desk.ok(&["send", "#ops", "first", "--as", "ada", "--no-wait"])
        .await;
    desk.ok(&["send", "#ops", "second", "--as", "bob", "--no-wait"])
        .await;
    let expected = "@ada in #ops TIME ago  ID\n  first\n\n@bob in #ops TIME ago  ID\n  second\n";
    assert_eq!(desk.ok(&["channel", "messages", "ops"]).await, expected);
    assert_eq!(
        desk.ok(&["channel", "leave", "ops", "--as", "bob"]).await,
        "left #ops, 1 member\n"
    );
    let expected = "relay: \"bob\" is not a member of #ops; join it first\n\
                    next: `relay channel join CHANNEL --as AGENT` joins it\n";
    assert_eq!(
        desk.refused(&["send", "#ops", "x", "--as", "bob"]).await,
        (5, expected.to_owned())
    );
    desk.ok(&["channel", "update", "ops", "--topic", "Quiet", "--archive"])
        .await;
    assert_eq!(
        desk.refused(&["send", "#ops", "x", "--as", "ada"]).await.0,
        8
    );
    desk.ok(&["channel", "update", "ops", "--unarchive"]).await;
    assert_eq!(desk.refused(&["channel", "update", "ops"]).await.0, 2);
    let (code, said) = desk.refused(&["channel", "show", "opps"]).await;
    assert_eq!(code, 4);
    assert!(said.contains("ops"), "{said}");
}
