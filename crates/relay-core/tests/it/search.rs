//! Searching, through the store as the engine uses it: what is found, and by whom.

#![expect(
    clippy::unwrap_used,
    reason = "a world that can't be made is a failed test"
)]

mod file;
mod world;

use relay_core::error::Error;
use relay_core::store::{PageRequest, Search};
use relay_protocol::time::Timestamp;

use world::{DAY, World, words};

#[test]
fn finds_at_once_what_was_sent() {
    let world = World::new();
    let ada = world.agent("ada");
    world.say(ada, "general", "the build is green");
    assert_eq!(world.texts("GREEN"), ["the build is green"]);
    world.say(ada, "general", "and green it stays");
    assert_eq!(
        world.texts("green"),
        ["and green it stays", "the build is green"]
    );
    assert_eq!(world.texts("green build"), ["the build is green"]);
    assert!(world.texts("green red").is_empty());
    let hit = &world.find(words("build")).unwrap().items[0];
    assert_eq!(hit.snippet, "the [build] is green");
}

#[test]
fn phrases_prefixes_and_identifiers() {
    let world = World::new();
    let ada = world.agent("ada");
    let texts = [
        "roll back the deploy now",
        "deploy, then roll it back",
        "see foo_bar in src/main.rs",
        "Grüße aus Übersee",
    ];
    for text in texts {
        world.say(ada, "general", text);
    }
    let cases: [(&str, &[usize]); 11] = [
        ("roll back", &[1, 0]),
        ("\"roll back\"", &[0]),
        ("\"back roll\"", &[]),
        ("depl*", &[1, 0]),
        ("depl", &[]),
        ("\"the dep\"*", &[0]),
        ("foo_bar", &[2]),
        ("foo", &[2]),
        ("main.rs", &[2]),
        ("foo_b*", &[2]),
        ("grusse ubersee", &[]),
    ];
    for (query, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|at| texts[*at]).collect();
        assert_eq!(world.texts(query), expected, "{query}");
    }
    assert_eq!(world.texts("grüße ubersee"), [texts[3]]);
    let hit = &world.find(words("UBERSEE")).unwrap().items[0];
    assert_eq!(hit.snippet, "Grüße aus [Übersee]");
}

#[test]
fn filters() {
    let world = World::new();
    let (ada, bob) = (world.agent("ada"), world.agent("bob"));
    world.channel("ops", &["ada", "bob"]);
    world.say_at(ada, "general", "one apple", 1_000);
    world.say_at(bob, "general", "two apple", 2_000);
    world.say_at(ada, "ops", "three apple", 3_000 + DAY);
    // A clock that jumped back: later in the log, earlier in time.
    world.say_at(bob, "ops", "four apple", 1_500);
    let found = |change: &dyn Fn(&mut Search)| {
        let mut search = words("apple");
        change(&mut search);
        let page = world.find(search).unwrap();
        let first = |text: &str| text.split(' ').next().unwrap().to_owned();
        page.items
            .iter()
            .map(|hit| first(&hit.message.text))
            .collect::<Vec<_>>()
    };
    let at = |millis| Some(Timestamp::from_millis(millis));
    assert_eq!(
        found(&|s| s.channel = Some("ops".into())),
        ["four", "three"]
    );
    assert_eq!(
        found(&|s| s.channel = Some("#OPS".into())),
        ["four", "three"]
    );
    assert_eq!(found(&|s| s.from = Some("@Ada".into())), ["three", "one"]);
    assert_eq!(found(&|s| s.from = Some("bob".into())), ["four", "two"]);
    assert_eq!(found(&|s| s.after = at(1_500)), ["four", "three", "two"]);
    assert_eq!(found(&|s| s.before = at(2_000)), ["four", "one"]);
    assert_eq!(
        found(&|s| (s.after, s.before) = (at(1_001), at(2_000))),
        ["four"]
    );
    assert_eq!(found(&|s| s.after = at(DAY)), ["three"]);
    assert!(found(&|s| s.after = at(2 * DAY)).is_empty());
    assert!(found(&|s| (s.after, s.before) = (at(9), at(3))).is_empty());

    let mut search = words("apple");
    search.channel = Some("#opps".into());
    let unknown = world.find(search).unwrap_err();
    assert!(
        matches!(&unknown, Error::UnknownChannel { name, nearest } if name == "opps" && nearest == &["ops"]),
        "{unknown}"
    );
    let mut search = words("apple");
    search.from = Some("@bobb".into());
    let unknown = world.find(search).unwrap_err();
    assert!(matches!(&unknown, Error::UnknownAgent { nearest, .. } if nearest == &["bob"]));

    world.release("bob");
    assert_eq!(found(&|s| s.from = Some("bob".into())), ["four", "two"]);
    let newer = world.agent("bob");
    world.say_at(newer, "general", "five apple", 5_000);
    assert_eq!(
        found(&|s| s.from = Some("bob".into())),
        ["five", "four", "two"]
    );
}

#[test]
fn pages_follow_each_other_without_repeats() {
    let world = World::new();
    let ada = world.agent("ada");
    let all: Vec<String> = (0..25).map(|n| format!("note {n}")).collect();
    for text in &all {
        world.say(ada, "general", text);
    }
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let mut search = words("note");
        search.page = PageRequest { cursor, limit: 10 };
        let page = world.find(search).unwrap();
        found.extend(page.items.into_iter().map(|hit| hit.message.text));
        // What is sent between two pages belongs to neither.
        world.say(ada, "general", "one more note");
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, all.into_iter().rev().collect::<Vec<_>>());
    let mut search = words("note");
    search.page.cursor = Some("yesterday".into());
    assert!(matches!(world.find(search), Err(Error::BadCursor { .. })));
    let mut search = words("note");
    search.page.cursor = Some(u64::MAX.to_string());
    assert!(matches!(world.find(search), Err(Error::BadCursor { .. })));
}

#[test]
fn agents_find_only_what_they_may_see() {
    let world = World::new();
    let (ada, bob, eve) = (world.agent("ada"), world.agent("bob"), world.agent("eve"));
    world.channel("ops", &["ada", "bob"]);
    world.tell(ada, "bob", "our secret plan");
    world.say(ada, "ops", "the plan of ops");
    world.say(ada, "general", "a plan for all");
    let all = ["a plan for all", "the plan of ops", "our secret plan"];
    assert_eq!(world.texts("plan"), all);
    assert_eq!(world.texts_for(Some(ada), words("plan")), all);
    assert_eq!(world.texts_for(Some(bob), words("plan")), all);
    assert_eq!(world.texts_for(Some(eve), words("plan")), all[..1]);
    let mut search = words("plan");
    search.from = Some("ada".into());
    assert_eq!(world.texts_for(Some(eve), search), all[..1]);
    let mut search = words("plan");
    search.channel = Some("ops".into());
    let refused = world.find_for(Some(eve), search).unwrap_err();
    assert!(matches!(refused, Error::NotAMember { agent, .. } if agent == "eve"));

    world.leave("general", "eve");
    assert!(world.texts_for(Some(eve), words("plan")).is_empty());
}

#[test]
fn workspaces_are_apart() {
    let world = World::new();
    let other = world.other_workspace();
    world.say(world.agent("ada"), "general", "a word here");
    other.say(other.agent("ada"), "general", "a word there");
    assert_eq!(world.texts("word"), ["a word here"]);
    assert_eq!(other.texts("word"), ["a word there"]);
    let mut search = words("word");
    search.page.cursor = Some((1_u64 << 41).to_string());
    assert!(matches!(world.find(search), Err(Error::BadCursor { .. })));
}

#[test]
fn an_agent_in_very_many_rooms_finds_only_theirs() {
    let world = World::new();
    let (ada, eve) = (world.agent("ada"), world.agent("eve"));
    for n in 0..300 {
        world.channel(&format!("room-{n}"), &["eve"]);
    }
    world.channel("closed", &["ada"]);
    world.say(eve, "room-7", "first plan");
    for n in 0..200 {
        world.say(ada, "closed", &format!("hidden plan {n}"));
    }
    world.say(ada, "general", "last plan");
    let mut search = words("plan");
    search.page.limit = 2;
    assert_eq!(
        world.texts_for(Some(eve), search),
        ["last plan", "first plan"]
    );
}

#[test]
fn edits_replace_words() {
    let world = World::new();
    let ada = world.agent("ada");
    let message = world.say(ada, "general", "meet at noon");
    assert_eq!(world.texts("noon"), ["meet at noon"]);
    world.edit(ada, &message, "meet at midnight");
    assert!(world.texts("noon").is_empty());
    assert_eq!(world.texts("midnight"), ["meet at midnight"]);
}

#[test]
fn nothing_in_a_query_is_code() {
    let world = World::new();
    let ada = world.agent("ada");
    world.say(ada, "general", "alpha and beta near r1");
    world.say(ada, "general", "gamma");
    let cases: [(&str, usize); 12] = [
        ("alpha AND beta", 1),
        ("alpha OR gamma", 0),
        ("alpha NOT beta", 0),
        ("-gamma", 1),
        ("facets:r1", 0),
        ("{facets} : r1", 0),
        ("r2", 0),
        ("NEAR(alpha beta)", 0),
        ("gamma\" OR \"alpha", 0),
        ("') OR 1=1 --", 0),
        ("^gamma + gamma", 1),
        ("alpha\0\" OR gamma", 0),
    ];
    for (query, expected) in cases {
        assert_eq!(world.texts(query).len(), expected, "{query:?}");
    }
    let long = "gamma ".repeat(170);
    assert_eq!(world.texts(&long).len(), 1);
    let marks = "\u{93e}\u{93f} gamma";
    assert_eq!(world.texts(marks).len(), 1);
    for query in ["", "  ", "\"\" * -- ()"] {
        let refused = world.find(words(query)).unwrap_err();
        assert!(matches!(refused, Error::Invalid { path: "q", .. }));
    }
}
