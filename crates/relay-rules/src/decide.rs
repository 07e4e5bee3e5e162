//! The decision: deny, explicit ask, grants, allow, ask.
//!
//! Every layer decides by itself and the strictest wins, so a layer more can only narrow. Grants help in every layer
//! and never against a deny or an ask rule. Where it can't be told whether such a rule is meant, somebody is asked,
//! unless a rule or a grant spells out the whole command: its author has seen all of it.

use relay_protocol::permission::RuleDecision;

use crate::call::{Call, Part, View};
use crate::files::Files;
use crate::pattern::Hit;
use crate::policy::Policy;
use crate::rule::Rule;
use crate::verdict::{Source, Used, Verdict};

/// Decides about a call. Without any layer it is asked about, unless a grant covers it.
#[must_use]
pub fn decide(call: &Call<'_>, layers: &[&Policy], grants: &[&Rule], files: &dyn Files) -> Verdict {
    let view = View::new(call, files);
    let parts = view.parts();
    let inputs = Inputs {
        granted: granted(&view, &parts, grants),
        parts,
        view,
        grants,
    };
    let empty = Policy::asks_always();
    let layers = if layers.is_empty() { &[&empty] } else { layers };
    let mut strictest: Option<Verdict> = None;
    let mut used = Vec::new();
    let mut needed = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let verdict = inputs.decide(index, layer);
        used.extend(verdict.used.iter().copied());
        needed.extend(verdict.grants.iter().copied());
        let before = strictest.as_ref().map(rank);
        if before.is_none_or(|before| rank(&verdict) > before) {
            strictest = Some(verdict);
        }
    }
    let mut verdict = strictest.unwrap_or_else(|| inputs.ask_by_default());
    if verdict.decision == RuleDecision::Allow {
        needed.sort_unstable();
        needed.dedup();
        verdict.used = used;
        verdict.grants = needed;
    } else {
        verdict.used = Vec::new();
        verdict.grants = Vec::new();
    }
    verdict
}

/// How strict a verdict is; an explicit one comes before the default.
fn rank(verdict: &Verdict) -> u8 {
    match (verdict.decision, verdict.source) {
        (RuleDecision::Deny, _) => 4,
        (RuleDecision::Ask, Source::Ask) => 3,
        (RuleDecision::Ask, Source::Doubt) => 2,
        (RuleDecision::Ask, _) => 1,
        (RuleDecision::Allow, _) => 0,
    }
}

struct Inputs<'a> {
    view: View<'a>,
    parts: Vec<Part>,
    grants: &'a [&'a Rule],
    /// For every part the first grant that covers it.
    granted: Vec<Option<usize>>,
}

/// For every part the first grant that covers it.
fn granted(view: &View<'_>, parts: &[Part], grants: &[&Rule]) -> Vec<Option<usize>> {
    let covers = |part: &Part| grants.iter().position(|rule| rule.covers_part(view, *part));
    parts.iter().map(covers).collect()
}

impl Inputs<'_> {
    fn decide(&self, index: usize, layer: &Policy) -> Verdict {
        if let Some(verdict) = self.denied_by_id(layer) {
            return verdict;
        }
        let denied = layer.deny().meeting(&self.view);
        if let Some((Hit::Yes, rule)) = denied {
            return verdict(
                RuleDecision::Deny,
                Source::Deny,
                Some(rule),
                format!("The deny rule `{}` matches this call.", rule.text()),
            );
        }
        let asked = layer.ask().meeting(&self.view);
        if let Some((Hit::Yes, rule)) = asked {
            return verdict(
                RuleDecision::Ask,
                Source::Ask,
                Some(rule),
                format!("The ask rule `{}` matches this call.", rule.text()),
            );
        }
        if let Some((_, rule)) = denied.or(asked)
            && !self.is_spelled_out(layer)
        {
            return self.doubt(rule);
        }
        if layer.passes() {
            let words = "Nothing in the rules of this run speaks against it.".to_owned();
            return verdict(RuleDecision::Allow, Source::Allow, None, words);
        }
        self.allowed(index, layer)
            .unwrap_or_else(|| self.ask_by_default())
    }

    fn denied_by_id(&self, layer: &Policy) -> Option<Verdict> {
        let reason = layer.denies_call(self.view.call.tool_call_id?)?;
        let words = "A deny rule names this very call.".to_owned();
        let mut verdict = verdict(RuleDecision::Deny, Source::Deny, None, words);
        verdict.deny_reason = reason.map(str::to_owned);
        Some(verdict)
    }

    fn doubt(&self, rule: &Rule) -> Verdict {
        let command = self.view.main_command();
        let why = command.and_then(|command| command.runs().doubt);
        let reason = match why {
            Some(why) => format!(
                "The command has {why}, so it can't be told whether `{}` applies.",
                rule.text()
            ),
            None => format!(
                "It can't be told whether `{}` applies to this call.",
                rule.text()
            ),
        };
        verdict(RuleDecision::Ask, Source::Doubt, Some(rule), reason)
    }

    fn is_spelled_out(&self, layer: &Policy) -> bool {
        let spells = |rule: &Rule| rule.spells_out(&self.view);
        self.grants.iter().any(|rule| spells(rule))
            || layer.allow().spells_out(&self.view)
            || layer.once().any(|(_, rule)| spells(rule))
    }

    /// Whether grants and rules of a layer cover every part, each as it can.
    fn allowed(&self, layer_index: usize, layer: &Policy) -> Option<Verdict> {
        let mut by_rule: Option<&Rule> = None;
        let mut grants = Vec::new();
        let mut open = Vec::new();
        for (part, grant) in self.parts.iter().zip(&self.granted) {
            if let Some(grant) = grant {
                grants.push(*grant);
            } else if let Some(rule) = layer.allow().covering(&self.view, *part) {
                by_rule = by_rule.or(Some(rule));
            } else {
                open.push(*part);
            }
        }
        let mut used = Vec::new();
        let mut once = None;
        if !open.is_empty() {
            let covers_open = |(_, rule): &(usize, &Rule)| {
                open.iter().all(|part| rule.covers_part(&self.view, *part))
            };
            let (index, rule) = layer.once().find(covers_open)?;
            used.push(Used {
                layer: layer_index,
                index,
            });
            once = Some((index, rule));
        }
        let (source, rule, what) = match (once, grants.first(), by_rule) {
            (Some((index, rule)), ..) => {
                (Source::AllowOnce(index), Some(rule), "rule for one call")
            }
            (None, Some(grant), _) => (Source::Grant(*grant), Some(self.grants[*grant]), "grant"),
            (None, None, rule) => (Source::Allow, rule, "allow rule"),
        };
        let text = rule.map_or("", Rule::text);
        let others = if self.parts.len() > 1 {
            ", with others where needed,"
        } else {
            ""
        };
        let reason = format!("The {what} `{text}`{others} covers this call.");
        let mut verdict = verdict(RuleDecision::Allow, source, rule, reason);
        verdict.used = used;
        verdict.grants = grants;
        Some(verdict)
    }

    fn ask_by_default(&self) -> Verdict {
        let command = self.view.main_command();
        let trouble = command.and_then(|command| command.reading.trouble);
        let concern = || command.and_then(|command| command.concerns.iter().flatten().next());
        let reason = match (trouble, concern()) {
            (Some(trouble), _) => format!(
                "No rule covers this call; the command has {}, which only an exact rule covers.",
                trouble.why
            ),
            (None, Some(concern)) => format!(
                "No rule covers this call; the command has {}, which no wildcard covers.",
                concern.why
            ),
            (None, None) => "No rule covers this call.".to_owned(),
        };
        verdict(RuleDecision::Ask, Source::Default, None, reason)
    }
}

fn verdict(decision: RuleDecision, source: Source, rule: Option<&Rule>, reason: String) -> Verdict {
    Verdict {
        decision,
        source,
        rule: rule.map(|rule| rule.text().to_owned()),
        reason,
        deny_reason: None,
        used: Vec::new(),
        grants: Vec::new(),
    }
}
