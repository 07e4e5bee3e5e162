//! Where is looked, and the hits there, page by page.
//!
//! Filters go into the look-up as far as they can. All of them are applied again to what the database
//! says about a hit, because the index may be newer than the view in which the search runs.

use std::ops::Range;

use relay_protocol::api::Page;
use relay_protocol::api::messages::SearchHit;
use relay_protocol::names::fold;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::channels::page_of;
use super::super::directory::unknown_agent;
use super::super::log::bounds;
use super::super::message_read::{FullMessage, full_at, place};
use super::index::{author_facet, room_facet};
use super::query::Query;
use super::snippet::snippet;
use super::{Failure, Shared};
use crate::error::Result;
use crate::store::position::Position;
use crate::store::records::WorkspaceRow;
use crate::store::requests::{Place, Search, Viewer};

/// Most rooms or authors that go into the look-up at first. Looking for any of many costs more than
/// sorting out a few hits, so with more of them the first hits are sorted out one by one.
const FEW_FACETS: usize = 8;

/// Most that go into it when that has not filled the page.
const MANY_FACETS: usize = 256;

/// Most hits that are looked up at a time.
const LOOKED_UP: usize = 4_096;

/// Where is looked.
pub(super) struct Scope {
    /// The rooms, ascending; `None` for all of the workspace.
    rooms: Option<Vec<i64>>,
    /// The authors, ascending; `None` for all.
    authors: Option<Vec<i64>>,
    /// When it was sent.
    times: Option<Range<i64>>,
}

impl Scope {
    /// Finds what the filters name, and what the viewer may see.
    pub(super) fn of(connection: &Connection, viewer: Viewer, search: &Search) -> Result<Self> {
        let channel = search.channel.as_deref().map(|name| {
            let name = name.strip_prefix('#').unwrap_or(name);
            place(connection, viewer, &Place::Channel(name.to_owned()))
        });
        let rooms = match (channel.transpose()?, viewer.agent) {
            (Some(room), _) => Some(vec![room.0]),
            (None, Some(agent)) => Some(numbers(
                connection,
                "SELECT room FROM members WHERE agent = ?1 ORDER BY room",
                [agent.0],
            )?),
            (None, None) => None,
        };
        let authors = search.from.as_deref().map(|name| {
            let name = name.strip_prefix('@').unwrap_or(name);
            authors_called(connection, viewer.workspace_no, name)
        });
        let after = search.after.map(Timestamp::as_millis);
        let before = search.before.map(Timestamp::as_millis);
        Ok(Self {
            rooms,
            authors: authors.transpose()?,
            times: (after.is_some() || before.is_some())
                .then(|| after.unwrap_or(i64::MIN)..before.unwrap_or(i64::MAX)),
        })
    }

    /// The look-up in FTS5's language, with those filters that are not too long.
    fn expression(&self, query: &Query, most_facets: usize) -> String {
        let mut expression = format!("text : ({})", query.expression());
        let short = |all: &&Vec<i64>| all.len() <= most_facets;
        let rooms = self.rooms.as_ref().filter(short);
        let authors = self.authors.as_ref().filter(short);
        let any_of = [
            rooms.map(|all| facets(all, room_facet)),
            authors.map(|all| facets(all, author_facet)),
        ];
        for any_of in any_of.into_iter().flatten() {
            expression.push_str(" AND facets : (");
            expression.push_str(&any_of);
            expression.push(')');
        }
        expression
    }

    /// Whether nothing can be found.
    fn is_empty(&self) -> bool {
        self.rooms.as_ref().is_some_and(Vec::is_empty)
            || self.times.as_ref().is_some_and(Range::is_empty)
    }

    /// Whether the message at a place is one of those that are looked for.
    fn admits(&self, connection: &Connection, position: Position) -> Result<bool> {
        let found: Option<(i64, i64, Option<i64>)> = connection
            .prepare_cached("SELECT at, room, author FROM messages WHERE position = ?1")?
            .query_row([position.key()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let Some((at, room, author)) = found else {
            return Ok(false);
        };
        let is_one_of = |all: &Vec<i64>, no: i64| all.binary_search(&no).is_ok();
        Ok(self.rooms.as_ref().is_none_or(|all| is_one_of(all, room))
            && self
                .authors
                .as_ref()
                .is_none_or(|all| author.is_some_and(|author| is_one_of(all, author)))
            && self.times.as_ref().is_none_or(|times| times.contains(&at)))
    }
}

/// Those who have, or had, a name: agents that were released are found as well.
fn authors_called(connection: &Connection, workspace_no: u32, name: &str) -> Result<Vec<i64>> {
    let found = numbers(
        connection,
        "SELECT no FROM agents WHERE workspace = ?1 AND folded = ?2 ORDER BY no",
        params![workspace_no, fold(name)],
    )?;
    if found.is_empty() {
        return Err(unknown_agent(connection, workspace_no, name)?);
    }
    Ok(found)
}

fn numbers(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<i64>> {
    Ok(connection
        .prepare_cached(sql)?
        .query_map(params, |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?)
}

/// Any of these, in FTS5's language.
fn facets(all: &[i64], facet: fn(i64) -> String) -> String {
    let names: Vec<String> = all.iter().map(|no| facet(*no)).collect();
    names.join(" OR ")
}

/// A search on its way through the index.
pub(super) struct Hits<'s> {
    pub(super) shared: &'s Shared,
    pub(super) connection: &'s Connection,
    pub(super) workspace: &'s WorkspaceRow,
    pub(super) query: &'s Query,
    pub(super) scope: &'s Scope,
}

impl Hits<'_> {
    /// The newest hits before a sequence number.
    pub(super) fn page(&self, before: u64, limit: usize) -> Result<Page<SearchHit>, Failure> {
        let found = self.before(before, limit + 1)?;
        let Page { items, next_cursor } = page_of(found, limit, |position: &Position| {
            position.seq().to_string()
        });
        let items = items
            .into_iter()
            .map(|position| full_at(self.connection, self.workspace.id, position))
            .map(|full| full.map(|full| self.hit(full)))
            .collect::<Result<_>>()?;
        Ok(Page { items, next_cursor })
    }

    fn hit(&self, full: FullMessage) -> SearchHit {
        SearchHit {
            snippet: snippet(&full.message.text, &self.query.terms),
            message: full.message,
        }
    }

    /// Up to `wanted` hits, newest first. Where the index can't filter, it is asked again and again, for
    /// more each time.
    fn before(&self, before: u64, wanted: usize) -> Result<Vec<Position>, Failure> {
        let mut found = Vec::new();
        let Some(mut range) = self.range(before)? else {
            return Ok(found);
        };
        let mut expression = self.scope.expression(self.query, FEW_FACETS);
        let mut looked_up = wanted;
        loop {
            let positions = self.matches(&expression, &range, looked_up)?;
            let is_last = positions.len() < looked_up;
            for position in positions {
                range.end = position;
                if self.scope.admits(self.connection, position)? {
                    found.push(position);
                }
                if found.len() == wanted {
                    return Ok(found);
                }
            }
            if is_last {
                return Ok(found);
            }
            expression = self.scope.expression(self.query, MANY_FACETS);
            looked_up = (looked_up * 2).clamp(1, LOOKED_UP);
        }
    }

    fn matches(
        &self,
        expression: &str,
        range: &Range<Position>,
        limit: usize,
    ) -> Result<Vec<Position>, Failure> {
        self.shared.with(|opened| {
            let found = opened.index.matches(expression, range, limit);
            found.map_err(Failure::Index)
        })
    }

    /// Between which places hits can be, all of them in the workspace.
    fn range(&self, before: u64) -> Result<Option<Range<Position>>, Failure> {
        if self.scope.is_empty() {
            return Ok(None);
        }
        let no = self.workspace.no;
        let all = Position::from_key(bounds(no).0)..Position::new(no, before);
        let Some(times) = self.scope.times.clone() else {
            return Ok(Some(all));
        };
        let days = self.shared.with(|opened| {
            let days = opened.index.range_of(no, times);
            days.map_err(Failure::Index)
        })?;
        Ok(days.map(|days| days.start.max(all.start)..days.end.min(all.end)))
    }
}
