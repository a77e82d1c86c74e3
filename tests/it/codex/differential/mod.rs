//! The same requests to Codex's own server and to ours: what comes back is the same, but for what is
//! in a table, each with its reason. A difference that is in the table and does not occur fails as well.

mod intended;
mod normal;
mod real;
mod talk;

use std::net::SocketAddr;
use std::thread;

use serde::Deserialize;
use serde_json::Value;

use crate::support::{Setup, TempDir, skipped, sys};
use intended::{INTENDED, Intended};
use real::Real;
use talk::Told;

/// Requests on one connection, in a directory of their own.
#[derive(Deserialize)]
struct Group {
    name: String,
    /// Lines of a shell that fill the directory.
    #[serde(default)]
    setup: String,
    /// The connection has not been initialized.
    #[serde(default)]
    raw: bool,
    /// Lines of output come in no order.
    #[serde(default)]
    sorted: bool,
    /// `[method, params]` is a request, text is a message as it is, `{"await": PROCESS}` waits until a
    /// process is closed, `{"until": [PROCESS, TEXT]}` until it has said that.
    steps: Vec<Value>,
}

const REQUESTS: [(&str, &str); 8] = [
    ("messages", include_str!("requests/messages.json")),
    ("starts", include_str!("requests/starts.json")),
    ("variables", include_str!("requests/variables.json")),
    ("output", include_str!("requests/output.json")),
    ("control", include_str!("requests/control.json")),
    ("looks", include_str!("requests/looks.json")),
    ("content", include_str!("requests/content.json")),
    ("trees", include_str!("requests/trees.json")),
];

/// What both servers have in their environment; nothing else is there.
const VARIABLES: &str = "PATH=/usr/bin:/bin HOME=/tmp LOGNAME=me USER=me USERNAME=me SHELL=/bin/bash \
    TMPDIR=/tmp TEMP=/t TMP=/t LANG=C.UTF-8 LC_ALL=C.UTF-8 LC_CTYPE=C.UTF-8 LC_TIME=C LANGUAGE=en \
    TERM=xterm COLORTERM=x TZ=UTC PWD=/tmp OLDPWD=/ SHLVL=3 EDITOR=vi PAGER=less DISPLAY=:0 \
    XDG_RUNTIME_DIR=/r SSH_AUTH_SOCK=/s HOSTNAME=h MAIL=m FOO=1 FO=2 FOOBAR=3 FOO.BAR=4 foo=5 BAR=6 \
    A*B=7 API_KEY=k1 api_key=k2 MyKey=k3 KEY=k4 KEYBOARD=k5 MONKEY=k6 A_SECRET=s1 secretive=s2 \
    TOKEN_X=t1 my_token=t2 PASSWORD=p1 CREDENTIALS=c1 AUTH_X=a1 PATHEXT=e PATH_X=px HOME_X=hx \
    CODEX_VERSION=v HTTP_PROXY= http_proxy=";

/// Whoever has no rights, for the groups that need none.
const NOBODY: u32 = 65534;

#[test]
fn messages_are_answered_alike() {
    compare("messages_are_answered_alike", "messages");
}

#[test]
fn processes_start_alike() {
    compare("processes_start_alike", "starts");
}

#[test]
fn variables_are_passed_on_alike() {
    compare("variables_are_passed_on_alike", "variables");
}

#[test]
fn output_comes_alike() {
    compare("output_comes_alike", "output");
}

#[test]
fn processes_are_controlled_alike() {
    compare("processes_are_controlled_alike", "control");
}

#[test]
fn files_look_alike() {
    compare("files_look_alike", "looks");
}

#[test]
fn content_is_read_and_written_alike() {
    compare("content_is_read_and_written_alike", "content");
}

#[test]
fn trees_are_changed_alike() {
    compare("trees_are_changed_alike", "trees");
}

#[track_caller]
fn compare(test: &str, family: &'static str) {
    let Some(codex) = super::codex(test) else { return };
    let (_, text) = REQUESTS.iter().find(|(name, _)| *name == family).unwrap();
    let groups: Vec<Group> = serde_json::from_str(text).unwrap();
    let (locked, free): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.name == "permissions");
    let mut differences = differ(&codex, &free, None);
    if !locked.is_empty() {
        if !sys::is_root() && skipped(test, "only root can be somebody else") {
            return;
        }
        differences.extend(differ(&codex, &locked, Some(NOBODY)));
    }
    let mine = INTENDED.iter().filter(|entry| entry.family == family).collect::<Vec<_>>();
    let unexplained: Vec<_> = differences
        .iter()
        .filter(|difference| !mine.iter().any(|entry| difference.is(entry)))
        .map(Difference::describe)
        .collect();
    let over: Vec<_> = mine
        .iter()
        .filter(|entry| !differences.iter().any(|difference| difference.is(entry)))
        .map(|entry| format!("{} / {}: {}", entry.group, entry.step, entry.why))
        .collect();
    assert!(
        unexplained.is_empty() && over.is_empty(),
        "{} differences that nobody wanted:\n{}\n{} intended ones that there are not:\n{}",
        unexplained.len(),
        unexplained.join("\n"),
        over.len(),
        over.join("\n")
    );
}

/// What differs between the two.
fn differ(codex: &std::path::Path, groups: &[Group], user: Option<u32>) -> Vec<Difference> {
    let home = TempDir::new();
    if user.is_some() {
        std::os::unix::fs::chown(home.path(), user, user).unwrap();
    }
    let real = Real::start(codex, home.path(), user);
    let mut words = vec!["env".to_owned(), "-i".into(), "-C".into(), "/tmp".into()];
    words.extend(variables(home.path()).map(|(name, value)| format!("{name}={value}")));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let mut setup = Setup::new().without_token().under(&words);
    if let Some(user) = user {
        setup = setup.user(user);
    }
    let ours = setup.listen();
    let tell = |address: SocketAddr, group: &Group| talk::tell(address, group, user);
    let mut differences = Vec::new();
    for group in groups {
        let (theirs, own) = thread::scope(|scope| {
            let builder = thread::Builder::new().name("Codex's own".into());
            let theirs = builder.spawn_scoped(scope, || tell(real.address, group)).unwrap();
            let own = tell(ours.address, group);
            (theirs.join().unwrap(), own)
        });
        assert_eq!(theirs.len(), own.len());
        for (theirs, own) in theirs.into_iter().zip(own) {
            let shared = normal::within(&own.answer, &theirs.answer);
            if normal::of(&theirs.answer) != normal::of(&shared) {
                let group = group.name.clone();
                differences.push(Difference { group, theirs, own });
            }
        }
    }
    differences
}

fn variables(home: &std::path::Path) -> impl Iterator<Item = (String, String)> {
    let pairs = VARIABLES.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    let home = ("CODEX_HOME".to_owned(), home.to_str().unwrap().to_owned());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).chain([home])
}

struct Difference {
    group: String,
    theirs: Told,
    own: Told,
}

impl Difference {
    fn is(&self, entry: &Intended) -> bool {
        self.group == entry.group
            && self.own.step.contains(entry.step)
            && self.own.answer.to_string().contains(entry.ours)
    }

    fn describe(&self) -> String {
        format!(
            "{}: {:.300}\n   codex: {:.1200}\n   ta:    {:.1200}",
            self.group,
            self.own.step,
            normal::of(&self.theirs.answer).to_string(),
            normal::of(&self.own.answer).to_string()
        )
    }
}
