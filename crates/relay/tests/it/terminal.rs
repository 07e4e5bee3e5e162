//! The program in a real terminal: lines that change in place, colour, and what Ctrl-C leaves behind. What it says in
//! pipes has its own tests.

mod chatting;
mod permissions;
mod running;
mod tmux;

use std::sync::Arc;

use futures_util::future::join_all;
use relay_sdk::{AttachedSession, CallbackSession, delivered};
use tokio::sync::Semaphore;

use self::tmux::Terminal;
use crate::support::{Desk, Done, Setup, finish};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A session that takes a message when it is told to.
struct Hesitant {
    told: Arc<Semaphore>,
    _session: AttachedSession,
}

impl Hesitant {
    async fn attach(desk: &Desk, name: &str) -> Self {
        let agent = desk.agent(name).await;
        let told = Arc::new(Semaphore::new(0));
        let waits_for = told.clone();
        let session = CallbackSession::new(agent.identity().clone(), move |_, context| {
            let told = waits_for.clone();
            async move {
                told.acquire().await.unwrap().forget();
                Ok(delivered(context.id))
            }
        });
        Self {
            told,
            _session: agent.attach(session).await.unwrap(),
        }
    }

    fn take_it(&self) {
        self.told.add_permits(1);
    }
}

/// A server, a terminal beside it, and ada, with others who hesitate; nothing where there is no terminal to be had.
async fn ada_and<const N: usize>(names: [&str; N]) -> Option<(Desk, Terminal, [Hesitant; N])> {
    let desk = Desk::new().await;
    let terminal = Terminal::open(&desk.setup).await?;
    desk.register(&["ada"]).await;
    desk.register(&names).await;
    let hesitant = join_all(names.map(|name| Hesitant::attach(&desk, name))).await;
    let Ok(hesitant) = hesitant.try_into() else {
        unreachable!("there are as many as there are names");
    };
    Some((desk, terminal, hesitant))
}

/// A command outside of the terminal, over the same data.
async fn outside(setup: &Setup, arguments: &[&str]) -> Done {
    let mut command = setup.relay();
    let done = finish(command.args(arguments).env("RELAY_DATA", setup.data())).await;
    assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
    done
}

/// The way the terminal treats keys, as `stty` writes it.
async fn modes(terminal: &mut Terminal) -> String {
    terminal.run("stty -g").await
}

#[tokio::test]
async fn up_says_its_summary_and_ctrl_c_ends_it_in_order() {
    let setup = Setup::new();
    let Some(mut terminal) = Terminal::open(&setup).await else {
        return;
    };
    let before = modes(&mut terminal).await;
    let up = "relay up --listen 127.0.0.1:0";
    terminal.enter(up).await;
    terminal
        .until_shown("Ctrl-C stops it; nothing is lost.")
        .await;
    let title = format!("relay {VERSION} is ready");
    terminal
        .until_shown(&format!("{title}\nurl          http://127.0.0.1:"))
        .await;
    terminal.until_shown("\nTry it in another terminal\n").await;
    let screen = terminal.colored_screen().await;
    assert!(screen.contains(&format!("\u{1b}[1m{title}")), "{screen}");
    for name in ["ada", "bob"] {
        outside(&setup, &["agent", "register", name]).await;
    }
    outside(&setup, &["send", "bob", "Shall we ship?", "--as", "ada"]).await;

    terminal.press("C-c").await;
    assert_eq!(terminal.ended().await, 0);
    terminal
        .until_shown("Ctrl-C stops it; nothing is lost.\n^C")
        .await;
    assert!(terminal.is_cursor_visible().await);
    assert_eq!(modes(&mut terminal).await, before);
    outside(&setup, &["audit", "verify"]).await;
    terminal.enter(up).await;
    terminal.until_shown("Ctrl-C stops it").await;
    let inbox = outside(&setup, &["inbox", "--as", "bob"]).await;
    assert!(inbox.out.contains("Shall we ship?"), "{inbox:?}");
}

#[tokio::test]
async fn a_send_shows_every_recipient_in_place() {
    let Some((_desk, mut terminal, [bob, eve])) = ada_and(["bob", "eve"]).await else {
        return;
    };
    terminal
        .enter("relay send bob,eve 'Shall we ship?' --as ada")
        .await;
    let waiting = "sent ID\n\
                   @bob  offered to its session, which has not answered yet\n\
                   @eve  offered to its session, which has not answered yet";
    terminal.until_said(waiting).await;
    bob.take_it();
    let half = "sent ID\n\
                @bob  delivered after TIME\n\
                @eve  offered to its session, which has not answered yet";
    terminal.until_said(half).await;
    eve.take_it();
    assert_eq!(terminal.ended().await, 0);
    terminal
        .until_said("sent ID\n@bob  delivered after TIME\n@eve  delivered after TIME")
        .await;
}

#[tokio::test]
async fn lines_stay_where_they_are_when_the_terminal_becomes_narrow() {
    let Some((desk, mut terminal, [bob, eve])) = ada_and(["bob", "eve"]).await else {
        return;
    };
    // tmux keeps the cursor where it is and moves what is above it up; what leaves the screen can't be changed.
    terminal.run("seq 20").await;
    terminal.enter("relay send bob,eve Hello --as ada").await;
    terminal
        .until_shown("@eve  offered to its session, which has not answered yet")
        .await;
    terminal.resize(40).await;
    bob.take_it();
    let cut = "sent ID\n@bob  delivered after TIME\n@eve  offered to its session, which has";
    terminal.until_said(cut).await;
    eve.take_it();
    assert_eq!(terminal.ended().await, 0);
    let whole = "sent ID\n@bob  delivered after TIME\n@eve  delivered after TIME";
    terminal.until_said(whole).await;
    // One that was narrow from the beginning. What stays is not cut off.
    desk.register(&["zoe"]).await;
    terminal.enter("relay send bob,zoe Hello --as ada").await;
    terminal
        .until_shown("@bob  offered to its session, which has\n")
        .await;
    bob.take_it();
    assert_eq!(terminal.ended().await, 0);
    let whole = "sent ID\n\
                 @bob  delivered after TIME\n\
                 @zoe  waits: no session of the agent is connected\n\
                 follow it: relay delivery show ID";
    terminal.until_said(whole).await;
}

#[tokio::test]
async fn colour_is_for_terminals_and_for_those_who_want_it() {
    let Some((_desk, mut terminal, [bob])) = ada_and(["bob"]).await else {
        return;
    };
    let plain = "sent ID\n@bob  delivered after TIME";
    for (command, green) in [
        ("relay send bob Hello --as ada", true),
        ("NO_COLOR=1 relay send bob Hello --as ada", false),
        // It would show colours, and everything that moves the cursor, as text.
        ("relay send bob Hello --as ada | cat -v", false),
    ] {
        bob.take_it();
        terminal.run(command).await;
        terminal.until_said(plain).await;
        let screen = terminal.colored_screen().await;
        let line = screen
            .lines()
            .rfind(|line| line.contains("delivered after"));
        let line = line.unwrap();
        assert_eq!(line.contains("\u{1b}[32mdelivered"), green, "{line:?}");
        assert_eq!(line.contains('\u{1b}'), green, "{line:?}");
    }
}

#[tokio::test]
async fn a_progress_bar_comes_and_goes() {
    let setup = Setup::new();
    let Some(mut terminal) = Terminal::open(&setup).await else {
        return;
    };
    // Too narrow for the bar with all that it says.
    terminal.resize(40).await;
    terminal
        .enter("relay bench search --quick --rounds 1")
        .await;
    terminal
        .until_shown("[--------------------] 0/1 measuring se")
        .await;
    assert_eq!(terminal.ended().await, 0);
    let screen = terminal.screen().await;
    assert!(!screen.contains("measuring"), "{screen}");
    assert!(
        screen.contains("| indexed by the next search |"),
        "{screen}"
    );
}

#[tokio::test]
async fn ctrl_c_leaves_a_terminal_that_works_and_data_that_is_whole() {
    let Some((desk, mut terminal, [_bob])) = ada_and(["bob"]).await else {
        return;
    };
    let before = modes(&mut terminal).await;
    for (command, goes_on, says) in [
        ("relay send bob Hello --as ada", "@bob  offered", "^C"),
        ("relay listen", "Ctrl-C ends it", "^C"),
        (
            "relay demo",
            "Watch every event",
            "relay: stopped; nothing of the demo is left behind",
        ),
        (
            "relay bench search --quick",
            "measuring search",
            "relay: stopped before the end",
        ),
    ] {
        terminal.enter(command).await;
        terminal.until_shown(goes_on).await;
        terminal.press("C-c").await;
        assert_eq!(terminal.ended().await, 130, "{command}");
        terminal.until_shown(&format!("\n{says}")).await;
        assert!(terminal.is_cursor_visible().await, "{command}");
        assert_eq!(modes(&mut terminal).await, before, "{command}");
    }
    let inbox = desk.json(&["inbox", "--as", "bob"]).await;
    assert_eq!(inbox["items"][0]["message"]["text"], "Hello");
    desk.ok(&["audit", "verify"]).await;
}
