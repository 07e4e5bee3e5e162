//! The prompt: one request at a time, until somebody decides about it, here or elsewhere.
//!
//! Only a key that was pressed alone and after the request was shown decides. What is pasted, typed ahead, or belongs to an
//! arrow key does not.

use std::collections::VecDeque;
use std::time::Duration;

use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionOutcome, PermissionRecord, ResolvePermission};
use relay_sdk::Error;
use tokio::time::{MissedTickBehavior, interval};

use super::card::{Card, Deed, Purpose};
use super::news::{Happening, News};
use super::{Decider, editing};
use crate::commands::permission::{asker, deciding};
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::output::{Output, Panel, one_line};
use crate::platform::{self, Key, Keyboard, StopSignal};
use crate::words;

/// How often the countdown moves.
const TICK: Duration = Duration::from_secs(1);

/// The prompt and what waits behind it.
pub(super) struct Prompt<'a> {
    decider: Decider,
    panel: Panel,
    output: &'a Output,
    waiting: VecDeque<PermissionRecord>,
    card: Option<Card>,
    skipped: usize,
}

impl<'a> Prompt<'a> {
    pub(super) const fn new(decider: Decider, panel: Panel, output: &'a Output) -> Self {
        Self {
            decider,
            panel,
            output,
            waiting: VecDeque::new(),
            card: None,
            skipped: 0,
        }
    }

    /// Goes on until somebody ends it.
    pub(super) async fn run(
        mut self,
        mut keyboard: Keyboard,
        mut news: News,
        stop: StopSignal,
        url: &str,
    ) -> Outcome {
        let mut stop = std::pin::pin!(stop.come());
        let mut closed = std::pin::pin!(platform::nobody_reads());
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.show_next(&mut keyboard).await;
            self.draw(url)?;
            tokio::select! {
                happening = news.next() => self.hear(happening?).await?,
                key = keyboard.key() => {
                    // Pasted text is no decision.
                    let is_alone = !keyboard.has_more();
                    let deed = match key {
                        Some(key) => self.pressed(key, is_alone),
                        None => Deed::Quit,
                    };
                    if self.carry_out(deed, &mut keyboard).await? {
                        return self.end(None);
                    }
                }
                _ = tick.tick() => {}
                () = &mut stop => return self.end(Some("stopped")),
                () = &mut closed => return Err(Failure::nobody_reads()),
            }
        }
    }

    /// Shows the next request, if none is shown.
    async fn show_next(&mut self, keyboard: &mut Keyboard) {
        if self.card.is_some() {
            return;
        }
        let Some(record) = self.waiting.pop_front() else {
            return;
        };
        keyboard.forget();
        // Nothing depends on it but what others are told.
        let _ = self.decider.permissions.seen(record.permission_id).await;
        self.card = Some(Card::new(record));
    }

    fn draw(&mut self, url: &str) -> Outcome {
        let style = *self.output.style();
        let Some(card) = &mut self.card else {
            let line = style.faint(&format!("waiting for requests at {url}; q quits"));
            return self.panel.draw(self.output, vec![line]);
        };
        let head = card.head(&style);
        let foot = card.foot(&style, self.waiting.len());
        let all: Vec<String> = head.iter().chain(&foot).cloned().collect();
        if !card.stands && self.panel.has_room(&all) {
            return self.panel.draw(self.output, all);
        }
        if !card.stands {
            card.stands = true;
            self.panel.leave(self.output, &head.join("\n"))?;
        }
        self.panel.draw(self.output, foot)
    }

    async fn hear(&mut self, happening: Happening) -> Outcome {
        match happening {
            Happening::Asked(record) => match self.decider.by_policy(&record).await {
                None => self.waiting.push_back(*record),
                Some(Ok(decided)) => self.leave_decided(&decided)?,
                Some(Err(error)) if error.outcome().is_some() => {}
                // It could not decide, so somebody has to.
                Some(Err(_)) => self.waiting.push_back(*record),
            },
            Happening::Ended { id, outcome } => self.forget(id, &outcome)?,
        }
        Ok(())
    }

    /// Takes a request away that ended elsewhere, and says how.
    fn forget(&mut self, id: PermissionId, outcome: &PermissionOutcome) -> Outcome {
        let shown = self.card.take_if(|card| card.record.permission_id == id);
        let at = self
            .waiting
            .iter()
            .position(|record| record.permission_id == id);
        let behind = at.and_then(|at| self.waiting.remove(at));
        match shown.map(|card| card.record).or(behind) {
            Some(record) => self.leave_ended(&record, outcome),
            None => Ok(()),
        }
    }

    fn leave_ended(&mut self, record: &PermissionRecord, outcome: &PermissionOutcome) -> Outcome {
        let how = words::ended(self.output.style(), outcome);
        let line = format!(
            "{how}  @{} {}: {}  {}",
            asker(record),
            one_line(&record.tool),
            words::summary(record),
            record.permission_id
        );
        self.panel.leave(self.output, &line)
    }

    fn leave_decided(&mut self, record: &PermissionRecord) -> Outcome {
        let told = deciding::told(self.output.style(), record);
        self.panel.leave(self.output, &told)
    }

    fn pressed(&mut self, key: Key, is_alone: bool) -> Deed {
        match &mut self.card {
            Some(card) if card.typing.is_some() => card.typed(key),
            _ if !is_alone => Deed::Nothing,
            Some(card) => card.pressed(key),
            None if key == Key::Letter('q') => Deed::Quit,
            None => Deed::Nothing,
        }
    }

    /// Whether it is the end.
    async fn carry_out(&mut self, deed: Deed, keyboard: &mut Keyboard) -> Outcome<bool> {
        match deed {
            Deed::Nothing => {}
            Deed::Quit => return Ok(true),
            Deed::Skip => self.skip()?,
            Deed::Edit => self.edit(keyboard).await?,
            Deed::Answer(answer) => self.answer(*answer).await?,
        }
        Ok(false)
    }

    async fn answer(&mut self, answer: ResolvePermission) -> Outcome {
        let Some(card) = &self.card else {
            return Ok(());
        };
        match self.decider.resolve(&card.record, answer).await {
            Ok(decided) => {
                self.card = None;
                self.leave_decided(&decided)
            }
            Err(error) => self.answer_refused(error),
        }
    }

    fn answer_refused(&mut self, error: Error) -> Outcome {
        if let (Some(outcome), Some(card)) = (error.outcome(), self.card.take()) {
            return self.leave_ended(&card.record, outcome);
        }
        if let Some(card) = &mut self.card {
            card.note = Some(Failure::from(error).message().to_owned());
        }
        Ok(())
    }

    fn skip(&mut self) -> Outcome {
        let Some(card) = self.card.take() else {
            return Ok(());
        };
        self.skipped += 1;
        let id = card.record.permission_id;
        let line = format!("skipped, it goes on waiting  {id}");
        self.panel
            .leave(self.output, &self.output.style().faint(&line))
    }

    async fn edit(&mut self, keyboard: &mut Keyboard) -> Outcome {
        let Some(card) = &mut self.card else {
            return Ok(());
        };
        let params = card.edited.as_ref().unwrap_or(&card.record.params).clone();
        let Some(editor) = editing::editor() else {
            let text = serde_json::to_string(&params).unwrap_or_default();
            card.typing = Some((Purpose::Params, text));
            return Ok(());
        };
        self.panel.clear(self.output)?;
        keyboard.give_back();
        let edited = editing::edit(&editor, &params).await;
        keyboard.take();
        keyboard.forget();
        card.take_edited(edited);
        Ok(())
    }

    /// Takes the prompt away and says what is left to do.
    fn end(mut self, stopped: Option<&str>) -> Outcome {
        self.panel.clear(self.output)?;
        let left = self.waiting.len() + self.skipped + usize::from(self.card.is_some());
        let left = match left {
            0 => "nothing waits".to_owned(),
            count => {
                let list = hints::command("permission list --state pending");
                format!(
                    "{} waiting: {list}",
                    words::counted(count as u64, "request goes on", "requests go on")
                )
            }
        };
        match stopped {
            Some(why) => Err(Failure::interrupted(format!("{why}; {left}"))),
            None => self.output.line(&left),
        }
    }
}
