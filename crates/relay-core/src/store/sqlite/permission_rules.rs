//! What the rules and grants say about a call, inside the change that asks.
//!
//! Rules are compiled once and remembered; what was granted is read anew for every call, so that a grant that was
//! taken back a moment ago decides nothing.

use std::collections::HashMap;

use relay_protocol::ids::GrantId;
use relay_protocol::permission::{DenyRule, GrantEffect, Permissions};
use relay_protocol::time::Timestamp;
use relay_rules::{Call, Files, Policy, Rule, Verdict, decide};
use rusqlite::{Connection, params};

use super::directory::{from_json, remember};
use super::writer::Tx;
use super::{grants, workspaces};
use crate::error::{Result, StorageError};
use crate::store::permission_requests::{GrantNo, GrantRow, InForce, Layer, RunNo, Whose};

/// Rules that were compiled. A run's rules and a grant's never change; a workspace's change with its version.
#[derive(Default)]
pub(super) struct Compiled {
    policies: HashMap<(u32, u64, Option<RunNo>), Policy>,
    grants: HashMap<GrantNo, Rule>,
}

/// The rules of a workspace and of the runs down to this one.
pub(super) fn layers(
    connection: &Connection,
    of_workspace: Option<&Permissions>,
    run: Option<RunNo>,
) -> Result<Vec<Layer>> {
    let mut chain = Vec::new();
    let mut next = run;
    while let Some(no) = next {
        let (parent, permissions, spent) = own_rules(connection, no)?;
        chain.push(Layer {
            run: Some(no),
            permissions: permissions.unwrap_or_default(),
            spent,
        });
        next = parent;
    }
    let root = chain.pop();
    let outermost = Layer {
        run: root.as_ref().and_then(|root| root.run),
        permissions: joined(of_workspace, root.as_ref().map(|root| &root.permissions)),
        spent: root.map(|root| root.spent).unwrap_or_default(),
    };
    chain.push(outermost);
    chain.reverse();
    Ok(chain)
}

type OwnRules = (Option<RunNo>, Option<Permissions>, Vec<usize>);

fn own_rules(connection: &Connection, run: RunNo) -> Result<OwnRules> {
    let sql = "SELECT parent, permissions, spent FROM permission_runs WHERE no = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([run.0], |row| {
        let permissions: Option<String> = row.get(1)?;
        let spent: Option<String> = row.get(2)?;
        Ok((
            row.get::<_, Option<i64>>(0)?.map(RunNo),
            permissions.map(|text| from_json(&text)).transpose()?,
            spent.map_or(Ok(Vec::new()), |text| from_json(&text))?,
        ))
    });
    Ok(found?)
}

/// The rules of two as one: each may allow, ask about and refuse.
fn joined(first: Option<&Permissions>, second: Option<&Permissions>) -> Permissions {
    fn both<T: Clone>(a: Option<&Vec<T>>, b: Option<&Vec<T>>) -> Option<Vec<T>> {
        match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.into_iter().chain(b).flatten().cloned().collect()),
        }
    }
    fn of<T>(
        of: Option<&Permissions>,
        pick: fn(&Permissions) -> &Option<Vec<T>>,
    ) -> Option<&Vec<T>> {
        of.and_then(|rules| pick(rules).as_ref())
    }
    Permissions {
        allowlist: both(
            of(first, |it| &it.allowlist),
            of(second, |it| &it.allowlist),
        ),
        ask: both(of(first, |it| &it.ask), of(second, |it| &it.ask)),
        deny: both(of(first, |it| &it.deny), of(second, |it| &it.deny)),
        allow_once: both(
            of(first, |it| &it.allow_once),
            of(second, |it| &it.allow_once),
        ),
    }
}

/// What decides about the calls of somebody.
pub(super) fn in_force(connection: &Connection, whose: &Whose) -> Result<InForce> {
    let workspace = workspaces::by_no(connection, whose.workspace_no)?;
    Ok(InForce {
        layers: layers(connection, workspace.policy.permissions.as_ref(), whose.run)?,
        grants: grants::reaching(connection, whose)?,
    })
}

/// A layer's rules, compiled. All but the outermost can only narrow.
fn compiled(place: usize, layer: &Layer) -> Result<Policy> {
    let policy = match place {
        0 => Policy::compile(&layer.permissions),
        _ => Policy::narrowing(&layer.permissions),
    };
    // They were compiled before they were stored.
    policy.map_err(|fault| StorageError::Corrupt(format!("a stored rule: {fault}")).into())
}

/// Decides about a call.
pub(crate) fn judge(in_force: &InForce, call: &Call<'_>, files: &dyn Files) -> Result<Verdict> {
    let mut policies = Vec::new();
    for (place, layer) in in_force.layers.iter().enumerate() {
        policies.push(compiled(place, layer)?.without_once(&layer.spent));
    }
    let mut rules = Vec::new();
    for grant in &in_force.grants {
        rules.push(rule_of(grant)?);
    }
    by_all(&policies, &rules, in_force, call, files)
}

fn rule_of(grant: &GrantRow) -> Result<Rule> {
    let rule = Rule::parse(&grant.rule);
    rule.map_err(|fault| StorageError::Corrupt(format!("a stored grant: {fault}")).into())
}

/// Decides with everything that was compiled. Grants that refuse are rules that refuse.
fn by_all(
    policies: &[Policy],
    rules: &[Rule],
    in_force: &InForce,
    call: &Call<'_>,
    files: &dyn Files,
) -> Result<Verdict> {
    let is_refusing = |grant: &GrantRow| grant.effect == GrantEffect::Deny;
    let refusing = in_force.grants.iter().filter(|grant| is_refusing(grant));
    let refusing: Vec<DenyRule> = refusing
        .map(|grant| DenyRule::Short(grant.rule.clone()))
        .collect();
    let refusing = Policy::narrowing(&Permissions {
        deny: Some(refusing),
        ..Permissions::default()
    })
    .map_err(|fault| StorageError::Corrupt(format!("a stored grant: {fault}")))?;
    let layers: Vec<&Policy> = policies.iter().chain([&refusing]).collect();
    let (places, allowing): (Vec<usize>, Vec<&Rule>) = rules
        .iter()
        .enumerate()
        .filter(|(place, _)| !is_refusing(&in_force.grants[*place]))
        .unzip();
    let mut verdict = decide(call, &layers, &allowing, files);
    for place in &mut verdict.grants {
        *place = places[*place];
    }
    Ok(verdict)
}

impl Tx<'_> {
    /// Decides about a call; says what was in force.
    pub(super) fn judge(
        &mut self,
        whose: &Whose,
        call: &Call<'_>,
        files: &dyn Files,
    ) -> Result<(Verdict, InForce)> {
        let workspace = self.workspace(whose.workspace_no)?;
        let of_workspace = workspace.policy.permissions.as_ref();
        let in_force = InForce {
            layers: layers(self.connection, of_workspace, whose.run)?,
            grants: grants::reaching(self.connection, whose)?,
        };
        let known = &mut self.directory.compiled;
        let mut policies = Vec::new();
        for (place, layer) in in_force.layers.iter().enumerate() {
            let key = (workspace.no, workspace.policy.version, layer.run);
            let policy = match known.policies.get(&key) {
                Some(policy) => policy.clone(),
                None => {
                    let policy = compiled(place, layer)?;
                    remember(&mut known.policies, key, policy.clone());
                    policy
                }
            };
            policies.push(match layer.spent.is_empty() {
                true => policy,
                false => policy.without_once(&layer.spent),
            });
        }
        let mut rules = Vec::new();
        for grant in &in_force.grants {
            let rule = match known.grants.get(&grant.no) {
                Some(rule) => rule.clone(),
                None => {
                    let rule = rule_of(grant)?;
                    remember(&mut known.grants, grant.no, rule.clone());
                    rule
                }
            };
            rules.push(rule);
        }
        let verdict = by_all(&policies, &rules, &in_force, call, files)?;
        Ok((verdict, in_force))
    }

    /// Notes what a decision has used; says which grant it was, if it was one.
    pub(super) fn use_up(
        &mut self,
        verdict: &Verdict,
        in_force: &InForce,
        at: Timestamp,
    ) -> Result<Option<GrantId>> {
        for used in &verdict.used {
            let Some(layer) = in_force.layers.get(used.layer) else {
                continue;
            };
            let mut spent = layer.spent.clone();
            spent.push(used.index);
            let spent = super::directory::to_json(&spent)?;
            self.execute(
                "UPDATE permission_runs SET spent = ?2 WHERE no = ?1",
                params![layer.run.map(|run| run.0), spent],
            )?;
        }
        let mut first = None;
        for place in &verdict.grants {
            let Some(grant) = in_force.grants.get(*place) else {
                continue;
            };
            first = first.or(Some(grant.id));
            self.execute(
                "UPDATE grants SET last_used_at = ?2 WHERE no = ?1",
                params![grant.no.0, at.as_millis()],
            )?;
        }
        Ok(first)
    }
}
