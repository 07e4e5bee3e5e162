//! Who decides what an agent may do that nobody but this command knows of: you, at the terminal, or a word given before.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use relay_harness::acp::permission::{
    AgentOption, AllowEach, Decides, Deciding, PermissionAnswer, PermissionQuestion, RejectAll,
};
use relay_protocol::permission::PermissionOptionKind;
use tokio::sync::Mutex;

use super::asking::Allow;
use crate::output::{Output, Style, one_line};
use crate::platform::{Key, Keyboard};
use crate::words;

/// The one who decides: as it was said, or whoever sits at the terminal; without one nobody, so everything is rejected.
pub(super) fn by(allow: Option<Allow>, output: &Output) -> Arc<dyn Decides> {
    let has_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    match allow {
        Some(Allow::Each) => Arc::new(AllowEach),
        Some(Allow::None) => Arc::new(RejectAll),
        None if has_terminal => Arc::new(AtTerminal {
            style: *output.error_style(),
            keyboard: Mutex::new(None),
        }),
        None => Arc::new(RejectAll),
    }
}

/// Asks on standard error, one question after the other; a key decides.
struct AtTerminal {
    style: Style,
    /// Taken only while something is asked.
    keyboard: Mutex<Option<Keyboard>>,
}

impl Decides for AtTerminal {
    fn decide(&self, question: PermissionQuestion) -> Deciding<'_> {
        Box::pin(self.ask(question))
    }
}

impl AtTerminal {
    async fn ask(&self, question: PermissionQuestion) -> PermissionAnswer {
        let mut keyboard = self.keyboard.lock().await;
        if keyboard.is_none() {
            *keyboard = Keyboard::open();
        }
        let Some(keyboard) = keyboard.as_mut() else {
            return PermissionAnswer::Reject;
        };
        keyboard.take();
        // Also when the question is not needed any more, and this is dropped.
        let keyboard = GiveBack(keyboard);
        keyboard.0.forget();
        say(&format!("\n{}", self.card(&question)));
        let answer = answer(keyboard.0, &question.options).await;
        let said = match &answer {
            PermissionAnswer::AllowOnce => self.style.good("allowed"),
            PermissionAnswer::AllowAlways => self.style.good("allowed from now on"),
            _ => self.style.bad("rejected"),
        };
        say(&format!("{said}\n"));
        answer
    }

    fn card(&self, question: &PermissionQuestion) -> String {
        let call = &question.tool_call;
        let style = &self.style;
        let mut lines = vec![format!(
            "{} wants to use {}",
            style.strong(&one_line(&question.agent)),
            style.open(&one_line(call.tool()))
        )];
        if let Some(title) = &call.title {
            lines.push(format!("  {}", words::shell_text(style, title)));
        }
        let input = call.input.as_ref().and_then(|input| input.as_object());
        for (name, value) in input.into_iter().flatten() {
            let value = words::value(style, name, value);
            lines.push(format!("  {}: {value}", style.faint(&one_line(name))));
        }
        let always = match has_always(&question.options) {
            true => "  [A]lways",
            false => "",
        };
        lines.push(format!("[a]llow once{always}  [d]eny  "));
        lines.join("\n")
    }
}

/// Gives the keyboard back when nothing is asked any more.
struct GiveBack<'a>(&'a mut Keyboard);

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

async fn answer(keyboard: &mut Keyboard, options: &[AgentOption]) -> PermissionAnswer {
    loop {
        let key = keyboard.key().await;
        match key {
            // What is pasted decides nothing.
            Some(_) if keyboard.has_more() => keyboard.forget(),
            Some(Key::Letter('a')) => return PermissionAnswer::AllowOnce,
            Some(Key::Letter('A')) if has_always(options) => return PermissionAnswer::AllowAlways,
            Some(Key::Letter('d')) | None => return PermissionAnswer::Reject,
            Some(_) => {}
        }
    }
}

fn has_always(options: &[AgentOption]) -> bool {
    let mut kinds = options.iter().map(|option| option.kind);
    kinds.any(|kind| kind == Some(PermissionOptionKind::AllowAlways))
}

fn say(text: &str) {
    let mut stderr = std::io::stderr();
    // Where nobody looks, nobody decides either.
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
