//! The stdio servers of `--mcp-config`: they run on the environment, and what tools they have is
//! offered under their names.
//!
//! One that cannot be started, or ends, is told of, and its tools are left out; the others go on. It
//! is not started again: what it knew is gone, and whoever uses it should know that.

mod hello;
mod lines;
mod link;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(super) use link::{Link as Upstream, Reply};

use super::Config;
use crate::environment::ExecEnvironment;
use crate::sync::lock;
use crate::threads;
use crate::tools::to_url;

/// How long a server may take to be ready; whoever asks for the tools waits for it.
const STARTING: Duration = Duration::from_secs(30);
/// How long servers have to end by themselves when their stdin is closed; then, after SIGTERM.
const CLOSING: Duration = Duration::from_millis(1000);
const TERMINATING: Duration = Duration::from_millis(500);
/// The longest name of a tool that all agents take.
const LONGEST_NAME: usize = 64;

/// Is told what has happened, for a person.
pub(super) type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// The servers.
#[derive(Clone)]
pub(crate) struct Upstreams {
    shared: Arc<Shared>,
}

struct Shared {
    servers: Mutex<Servers>,
    changed: Condvar,
}

struct Servers {
    /// In the order of the config; those that run.
    running: Vec<(usize, Arc<Upstream>)>,
    /// How many are being started.
    starting: usize,
    count: usize,
}

impl Upstreams {
    /// None.
    pub(crate) fn none() -> Self {
        Self::of(0)
    }

    fn of(count: usize) -> Self {
        let servers = Servers { running: Vec::new(), starting: count, count };
        let shared = Shared { servers: Mutex::new(servers), changed: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Starts all of a config, each on a thread of its own. `report` is told of failures and of what
    /// they write to stderr, `on_change` that there are other tools now.
    pub(crate) fn start(
        config: Config,
        environment: &Arc<dyn ExecEnvironment>,
        report: &Report,
        on_change: &Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let upstreams = Self::of(config.servers.len());
        let root = to_url(environment.cwd());
        for (place, (name, entry)) in config.servers.into_iter().enumerate() {
            let starting = Starting { upstreams: upstreams.clone() };
            let (environment, root) = (Arc::clone(environment), root.clone());
            let (report, changed) = (Arc::clone(report), Arc::clone(on_change));
            // Without a thread it is dropped, and so counted as one that has failed.
            let _ = threads::run(move || {
                let ended = starting.upstreams.clone();
                let told = Arc::clone(&changed);
                let on_end = move || {
                    ended.forget(place);
                    told();
                };
                let deadline = Instant::now() + STARTING;
                let begun = Upstream::start(
                    &name,
                    entry,
                    &*environment,
                    root,
                    &report,
                    changed,
                    on_end,
                    deadline,
                );
                match begun {
                    Ok(upstream) => starting.ready(place, upstream),
                    Err(error) => {
                        report(&format!("the MCP server {name:?} is left out: {}", error.message()))
                    }
                }
            });
        }
        upstreams
    }

    /// Whether there are none in the config.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.shared.servers).count == 0
    }

    /// All of their tools, as they are offered.
    pub(super) fn tools(&self) -> Vec<Value> {
        self.offered().into_iter().map(|offered| offered.tool).collect()
    }

    /// The one that a name stands for, and what it calls the tool itself.
    pub(super) fn find(&self, name: &str) -> Option<(Arc<Upstream>, String)> {
        let offered = self.offered().into_iter().find(|offered| offered.name == name)?;
        Some((offered.upstream, offered.own))
    }

    fn offered(&self) -> Vec<Offered> {
        let mut names = Names::default();
        let mut all = Vec::new();
        for upstream in self.running() {
            for mut tool in upstream.tools() {
                let Some(own) = tool.get("name").and_then(Value::as_str).map(str::to_owned) else {
                    continue;
                };
                let name = names.of(upstream.name(), &own);
                if let Some(member) = tool.get_mut("name") {
                    *member = Value::String(name.clone());
                }
                all.push(Offered { name, own, tool, upstream: Arc::clone(&upstream) });
            }
        }
        all
    }

    /// Those that run, once none is being started any more.
    fn running(&self) -> Vec<Arc<Upstream>> {
        let deadline = Instant::now() + STARTING;
        let mut servers = lock(&self.shared.servers);
        while servers.starting > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // The condition variable hands the lock back while it waits.
            let waited = self.shared.changed.wait_timeout(servers, left);
            servers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        servers.running.iter().map(|(_, upstream)| Arc::clone(upstream)).collect()
    }

    fn forget(&self, place: usize) {
        lock(&self.shared.servers).running.retain(|(other, _)| *other != place);
    }

    /// Ends them all, as a client ends a server that it has started: its stdin is closed, then comes
    /// SIGTERM, then SIGKILL.
    pub(crate) fn end(&self) {
        let running = std::mem::take(&mut lock(&self.shared.servers).running);
        running.iter().for_each(|(_, upstream)| upstream.close());
        let wait = |time: Duration| {
            let deadline = Instant::now() + time;
            running.iter().all(|(_, upstream)| upstream.has_ended_by(deadline))
        };
        if wait(CLOSING) {
            return;
        }
        running.iter().for_each(|(_, upstream)| upstream.signal("SIGTERM"));
        if !wait(TERMINATING) {
            running.iter().for_each(|(_, upstream)| upstream.signal("SIGKILL"));
        }
    }
}

/// One that is being started; dropped, it is not any more.
struct Starting {
    upstreams: Upstreams,
}

impl Starting {
    fn ready(&self, place: usize, upstream: Arc<Upstream>) {
        let mut servers = lock(&self.upstreams.shared.servers);
        // (It may have ended by now; then it was to be forgotten before it was known.)
        if !upstream.has_ended_by(Instant::now()) {
            servers.running.push((place, upstream));
            servers.running.sort_by_key(|(place, _)| *place);
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        lock(&self.upstreams.shared.servers).starting -= 1;
        self.upstreams.shared.changed.notify_all();
    }
}

/// A tool as an agent sees it.
struct Offered {
    name: String,
    /// What its server calls it.
    own: String,
    tool: Value,
    upstream: Arc<Upstream>,
}

/// Names that are in use.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    /// `SERVER__TOOL`, of characters that every agent takes, and no longer than they take.
    fn of(&mut self, server: &str, tool: &str) -> String {
        let plain = |name: &str| -> String {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
        };
        let whole = format!("{}__{}", plain(server), plain(tool));
        let mut name = whole.chars().take(LONGEST_NAME).collect::<String>();
        let mut number = 1;
        while self.0.contains_key(&name) {
            number += 1;
            let end = format!("_{number}");
            name = whole.chars().take(LONGEST_NAME - end.len()).chain(end.chars()).collect();
        }
        self.0.insert(name.clone(), number);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_short_and_different() {
        let mut names = Names::default();
        assert_eq!(names.of("my server", "get.sum"), "my_server__get_sum");
        assert_eq!(names.of("my_server", "get_sum"), "my_server__get_sum_2");
        assert_eq!(names.of("\u{e9}", "a-b"), "___a-b");
        let (first, second) = (names.of("s", &"x".repeat(100)), names.of("s", &"x".repeat(100)));
        assert_eq!((first.len(), second.len()), (64, 64));
        assert!(first != second && second.ends_with("x_2"), "{second}");
    }
}
