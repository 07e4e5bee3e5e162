//! A compiled policy. Rules are found by their tool, and those about a command by its program, so that many cost little.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use relay_protocol::limits::PERMISSION_RULES;
use relay_protocol::permission::{DenyRule, PermissionRule, Permissions};

use crate::call::{Part, View};
use crate::fault::RuleFault;
use crate::pattern::Hit;
use crate::rule::{Key, Rule};
use crate::shell::programs::base_name;

/// Rules that were read and checked. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Policy(Arc<Lists>);

#[derive(Clone, Debug, Default)]
struct Lists {
    allow: Arc<RuleSet>,
    once: Arc<RuleSet>,
    ask: Arc<RuleSet>,
    deny: Arc<RuleSet>,
    /// Calls that may not run, and why.
    calls: Arc<HashMap<String, Option<String>>>,
    /// Rules of `once` that were used up.
    spent: BTreeSet<usize>,
    /// Whether it leaves it to other layers what may run.
    passes: bool,
}

impl Policy {
    /// Reads a policy. The fault names the first rule that can't be read.
    pub fn compile(permissions: &Permissions) -> Result<Self, RuleFault> {
        let allow = |name: &str, rules: &Option<Vec<PermissionRule>>, key: fn(&Rule) -> Key| {
            let rules = rules.as_deref().unwrap_or_default();
            let compiled = compiled(name, rules, |rule| Rule::compile(rule).map(Some))?;
            Ok::<_, RuleFault>(Arc::new(RuleSet::new(compiled, key)))
        };
        let deny = permissions.deny.as_deref().unwrap_or_default();
        let calls = deny.iter().filter_map(|rule| match rule {
            DenyRule::Call(rule) => Some((rule.tool_call_id.clone(), rule.reason.clone())),
            _ => None,
        });
        Ok(Self(Arc::new(Lists {
            allow: allow("allowlist", &permissions.allowlist, Rule::key)?,
            once: allow("allowOnce", &permissions.allow_once, Rule::key)?,
            ask: allow("ask", &permissions.ask, Rule::wide_key)?,
            calls: Arc::new(calls.collect()),
            deny: Arc::new(RuleSet::new(
                compiled("deny", deny, Rule::compile_deny)?,
                Rule::wide_key,
            )),
            spent: BTreeSet::new(),
            passes: false,
        })))
    }

    /// Reads a policy that narrows another. Where it lists nothing that may run, it has only objections: what the
    /// other allows may run unless this one asks about it or refuses it.
    pub fn narrowing(permissions: &Permissions) -> Result<Self, RuleFault> {
        let mut lists = (*Self::compile(permissions)?.0).clone();
        lists.passes = permissions.allowlist.is_none() && permissions.allow_once.is_none();
        Ok(Self(Arc::new(lists)))
    }

    /// The policy without rules: every call is asked about.
    #[must_use]
    pub fn asks_always() -> Self {
        Self::default()
    }

    /// The same policy when these rules of its `allowOnce` were used up.
    #[must_use]
    pub fn without_once(&self, spent: &[usize]) -> Self {
        let mut lists = (*self.0).clone();
        lists.spent.extend(spent);
        Self(Arc::new(lists))
    }

    pub(crate) fn denies_call(&self, tool_call_id: &str) -> Option<Option<&str>> {
        self.0.calls.get(tool_call_id).map(Option::as_deref)
    }

    pub(crate) fn passes(&self) -> bool {
        self.0.passes
    }

    pub(crate) fn deny(&self) -> &RuleSet {
        &self.0.deny
    }

    pub(crate) fn ask(&self) -> &RuleSet {
        &self.0.ask
    }

    pub(crate) fn allow(&self) -> &RuleSet {
        &self.0.allow
    }

    /// The rules for one call that are left.
    pub(crate) fn once(&self) -> impl Iterator<Item = (usize, &Rule)> {
        let left = |(index, _): &(usize, &Rule)| !self.0.spent.contains(index);
        self.0
            .once
            .rules
            .iter()
            .filter_map(Option::as_ref)
            .enumerate()
            .filter(left)
    }
}

fn compiled<T>(
    name: &str,
    rules: &[T],
    compile: impl Fn(&T) -> Result<Option<Rule>, RuleFault>,
) -> Result<Vec<Option<Rule>>, RuleFault> {
    if rules.len() > PERMISSION_RULES {
        return Err(RuleFault::new(
            format!("permissions.{name}"),
            format!("at most {PERMISSION_RULES} rules"),
            rules.len().to_string(),
        ));
    }
    let compile = |(index, rule)| {
        compile(rule).map_err(|fault| fault.below(&format!("permissions.{name}[{index}]")))
    };
    rules.iter().enumerate().map(compile).collect()
}

/// A list of rules, and where to look in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSet {
    /// `None` is a rule of another kind.
    rules: Vec<Option<Rule>>,
    tools: HashMap<String, ToolRules>,
}

/// The rules of one tool, by their places.
#[derive(Clone, Debug, Default)]
struct ToolRules {
    whole: Vec<usize>,
    programs: HashMap<String, Vec<usize>>,
    exact: HashMap<String, Vec<usize>>,
    other: Vec<usize>,
}

impl RuleSet {
    fn new(rules: Vec<Option<Rule>>, key: fn(&Rule) -> Key) -> Self {
        let mut tools: HashMap<String, ToolRules> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            let Some(rule) = rule else { continue };
            let tool = tools.entry(rule.tool().to_owned()).or_default();
            let place = match key(rule) {
                Key::Tool => &mut tool.whole,
                Key::Program(program) => tool.programs.entry(program).or_default(),
                Key::Exact(text) => tool.exact.entry(text).or_default(),
                Key::Other => &mut tool.other,
            };
            place.push(index);
        }
        Self { rules, tools }
    }

    fn rule(&self, index: usize) -> Option<&Rule> {
        self.rules.get(index)?.as_ref()
    }

    /// The first rule that allows a part of a call.
    pub(crate) fn covering(&self, view: &View<'_>, part: Part) -> Option<&Rule> {
        let tool = self.tools.get(view.call.tool)?;
        if let Some(index) = tool.whole.first() {
            return self.rule(*index);
        }
        let mut places: Vec<usize> = tool.other.clone();
        if let Some(command) = view.indexed_command() {
            let mut texts = vec![command.text.as_str()];
            if let Part::Segment(index) = part {
                let segment = &command.reading.segments[index];
                texts.extend(command.text.get(segment.range.clone()));
                let program = segment
                    .words
                    .first()
                    .and_then(|word| tool.programs.get(&word.text));
                places.extend(program.into_iter().flatten());
            }
            places.extend(
                texts
                    .iter()
                    .filter_map(|text| tool.exact.get(*text))
                    .flatten(),
            );
        }
        places.sort_unstable();
        places.dedup();
        let mut rules = places.iter().filter_map(|index| self.rule(*index));
        rules.find(|rule| rule.covers_part(view, part))
    }

    /// Whether a rule spells out the whole command of a call.
    pub(crate) fn spells_out(&self, view: &View<'_>) -> bool {
        let (Some(tool), Some(command)) = (self.tools.get(view.call.tool), view.main_command())
        else {
            return false;
        };
        let program = command
            .reading
            .segments
            .first()
            .and_then(|segment| segment.words.first());
        let program = program.and_then(|word| tool.programs.get(&word.text));
        let exact = tool.exact.get(&command.text);
        let places = program
            .into_iter()
            .chain(exact)
            .chain([&tool.other])
            .flatten();
        let mut rules = places.filter_map(|index| self.rule(*index));
        rules.any(|rule| rule.spells_out(view))
    }

    /// The rule that most certainly refuses or asks about a call.
    pub(crate) fn meeting(&self, view: &View<'_>) -> Option<(Hit, &Rule)> {
        let tool = self.tools.get(view.call.tool)?;
        if let Some(index) = tool.whole.first() {
            return self.rule(*index).map(|rule| (Hit::Yes, rule));
        }
        let mut places: Vec<usize> = tool.other.clone();
        let mut doubtful = None;
        if let Some(command) = view.indexed_command() {
            let runs = command.runs();
            for run in &runs.list {
                let name = run
                    .words
                    .first()
                    .and_then(Option::as_deref)
                    .unwrap_or_default();
                let name = base_name(name).to_ascii_lowercase();
                places.extend(tool.programs.get(&name).into_iter().flatten());
            }
            doubtful = runs
                .doubt
                .and_then(|_| tool.programs.values().flatten().min());
        } else {
            places.extend(tool.programs.values().flatten());
        }
        places.sort_unstable();
        places.dedup();
        let rules = places.iter().filter_map(|index| self.rule(*index));
        // The first of the most certain ones.
        let mut best: Option<(Hit, &Rule)> = None;
        for rule in rules {
            let hit = rule.meets(view);
            if hit > best.map_or(Hit::No, |(hit, _)| hit) {
                best = Some((hit, rule));
            }
            if hit == Hit::Yes {
                break;
            }
        }
        best.or_else(|| Some((Hit::Maybe, self.rule(*doubtful?)?)))
    }
}
