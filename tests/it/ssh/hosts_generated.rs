//! Configurations without a command in them, made from a seed: every form of a line that ssh takes,
//! sections of all kinds, files that include files.

use std::fmt::Write as _;

use super::hosts::Home;
use crate::support::random::Random;

const NAMES: &[&str] = &[
    "web",
    "db",
    "Web",
    "web1",
    "a.example.org",
    "A.Example.Org",
    "10.0.0.7",
    "::1",
    "x_y",
    "h-1",
    "bob@db",
    "r@web",
];
const PATTERNS: &[&str] = &[
    "*",
    "w*",
    "?b",
    "*.example.org",
    "10.0.0.?",
    "w*b",
    "!web",
    "!w*",
    "!*.org",
    "!zz",
    "*b*",
    "???",
];
const HOST_NAMES: &[&str] = &[
    "target.example.org",
    "%h.internal",
    "Mixed.Case",
    "10.1.2.3",
    "web",
    "db",
    "FE80::2",
    "0:0::1",
    "p%%q",
    "\"%h\"",
    "x%%h-%h",
];
const USERS: &[&str] = &["alice", "bob", "root", "\"two words\"", "'x#y'", "al\\\"ice", "u\\\\v"];
const PORTS: &[&str] = &["22", "2222", "0022", "\"80\"", "65535"];
const JUMPS: &[&str] = &[
    "jump",
    "u@jump:2200",
    "a,b",
    "ssh://c@d:33",
    "none",
    "NONE",
    "[::2]:22",
    "one,u@two:3,ssh://v@three",
];
const COMMANDS: &[&str] = &["none", "nc %h %p", "ssh -W \"[%h]:%p\" x", "'a b' c"];
/// What the list does not look at, and ssh2-config would sometimes not take.
const OTHERS: &[&str] = &[
    "ConnectTimeout 10s",
    "AddKeysToAgent confirm",
    "ForwardAgent $SSH_AUTH_SOCK",
    "Compression yes",
    "IdentityFile \"~/a b\"",
    "SendEnv LANG LC_*",
    "LocalForward 8080 localhost:80",
    "SetEnv A=b",
    "ServerAliveInterval=5",
    "CanonicalizeHostname no",
    "UserKnownHostsFile none",
    "Ciphers +aes128-ctr",
    "StrictHostKeyChecking accept-new",
    "RemoteForward 80",
    "IdentityAgent none",
    "RekeyLimit 1G 1h",
    "CanonicalizePermittedCNAMEs none",
    "IgnoreUnknown Foo*,Bar",
    "DynamicForward 1080",
];
const LISTS: &[&str] =
    &["web", "*", "db,web", "\"!web,*\"", "*.example.org", "10.*", "!*", "W*,d?"];
const OWNERS: &[&str] = &["alice", "bob,root", "*", "!alice,*", "r*", "two*"];

/// A configuration on its way.
pub(super) struct Maker<'a> {
    pub(super) random: &'a mut Random,
    pub(super) home: &'a Home,
    files: usize,
    /// Files that are complete, and may be included again.
    complete: Vec<String>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(random: &'a mut Random, home: &'a Home) -> Self {
        Self { random, home, files: 0, complete: Vec::new() }
    }

    /// Writes a file with all that it includes; answers its names without wildcards, in order.
    pub(super) fn file(&mut self, name: &str, depth: usize) -> Vec<String> {
        let ending = if self.random.one_in(5) { "\r\n" } else { "\n" };
        let mut names = Vec::new();
        let mut text = String::new();
        let mut lines = 3 + self.random.below(14);
        while lines > 0 {
            lines -= 1;
            let line = match self.random.below(20) {
                0..=5 => self.host(&mut names),
                6 | 7 => self.match_line(),
                8 if depth < 4 && self.files < 12 => self.include(depth, &mut names),
                9 => self.one(&["", "   ", "# Host comment", "\t#"]).to_owned(),
                10 => self.one(OTHERS).to_owned(),
                _ => self.setting(),
            };
            let indent = self.one(&["", "  ", "\t", " \t "]);
            write!(text, "{indent}{line}{ending}").unwrap();
        }
        self.home.write(name, text);
        self.complete.push(name.to_owned());
        names
    }

    /// A keyword in any case, and one of the ways to go on.
    fn keyword(&mut self, keyword: &str) -> String {
        let spelled = match self.random.below(4) {
            0 => keyword.to_lowercase(),
            1 => keyword.to_uppercase(),
            _ => keyword.to_owned(),
        };
        spelled + self.one(&[" ", " ", " ", "\t", "=", " = ", "= ", "  =\t"])
    }

    fn one(&mut self, from: &[&'static str]) -> &'static str {
        self.random.pick::<&str>(from)
    }

    fn comment(&mut self) -> &'static str {
        self.one(&["", "", "", "", " # a comment", "\t#x", "  "])
    }

    fn host(&mut self, names: &mut Vec<String>) -> String {
        let mut line = self.keyword("Host");
        for number in 0..=self.random.below(4) {
            if number > 0 {
                line += self.one(&[" ", "\t", "  "]);
            }
            if self.random.one_in(3) {
                let pattern = self.one(PATTERNS);
                line += &self.quoted(pattern);
            } else {
                let name = self.one(NAMES);
                names.push(name.to_owned());
                line += &self.quoted(name);
            }
        }
        line + self.comment()
    }

    fn quoted(&mut self, word: &str) -> String {
        match self.random.below(8) {
            0 => format!("\"{word}\""),
            1 => format!("'{word}'"),
            2 => format!("{}\"{}\"", &word[..1], &word[1..]),
            _ => word.to_owned(),
        }
    }

    fn setting(&mut self) -> String {
        let (keyword, values) = *self.random.pick(&[
            ("HostName", HOST_NAMES),
            ("User", USERS),
            ("Port", PORTS),
            ("ProxyJump", JUMPS),
            ("ProxyCommand", COMMANDS),
        ]);
        let value = self.one(values);
        let line = self.keyword(keyword) + value;
        // A command has no comments. That `none # …` is no jump is not known to OpenSSH 9.2.
        if keyword == "ProxyCommand" || value.eq_ignore_ascii_case("none") {
            return line;
        }
        line + self.comment()
    }

    fn match_line(&mut self) -> String {
        let mut line = self.keyword("Match");
        match self.random.below(8) {
            0 => {
                return line + self.one(&["all", "ALL", "!all", "final all", "!canonical all"]);
            }
            1 => return line + self.one(&["final", "!final", "canonical", "!canonical"]),
            _ => {}
        }
        for number in 0..=self.random.below(2) {
            if number > 0 {
                line.push(' ');
            }
            let (criterion, lists) = *self.random.pick(&[
                ("host", LISTS),
                ("originalhost", LISTS),
                ("Host", LISTS),
                ("user", OWNERS),
                ("localuser", OWNERS),
            ]);
            line += self.one(&["", "", "", "!"]);
            line += criterion;
            line += self.one(&[" ", " ", "="]);
            line += self.one(lists);
        }
        if self.random.one_in(6) {
            line += " final";
        }
        line + self.comment()
    }

    fn include(&mut self, depth: usize, names: &mut Vec<String>) -> String {
        let mut line = self.keyword("Include");
        for number in 0..=self.random.below(2) {
            if number > 0 {
                line.push(' ');
            }
            self.files += 1;
            let own = format!("f{}", self.files);
            match self.random.below(7) {
                6 => {
                    // By whole paths, and not by the names of the directories.
                    for part in ["a.b/x", "a/x"] {
                        names.extend(self.file(&format!("{own}/{part}"), depth + 1));
                    }
                    write!(line, "{own}/*/x").unwrap();
                }
                0 => {
                    // A directory of some, each later than the one before it.
                    for part in ["B", "a.conf", "b", "b.d"].iter().take(1 + self.random.below(4)) {
                        names.extend(self.file(&format!("{own}/{part}"), depth + 1));
                    }
                    line += self.one(&["", "~/.ssh/"]);
                    write!(line, "{own}/*").unwrap();
                }
                1 => line += self.one(&["nothing", "nothing/*", "~/nothing?"]),
                2 if !self.complete.is_empty() => {
                    let again = self.random.pick(&self.complete).clone();
                    // Its names are known already, wherever it stands.
                    line += &again;
                }
                form => {
                    names.extend(self.file(&own, depth + 1));
                    line += &match form {
                        3 => format!("\"~/.ssh/{own}\""),
                        4 => self.home.file(&own).to_str().unwrap().to_owned(),
                        _ => own,
                    };
                }
            }
        }
        line
    }
}
