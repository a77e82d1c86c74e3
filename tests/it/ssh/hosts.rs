//! `ta hosts`: names, where they lead, how it is said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::wait;
use crate::support::{TempDir, binary, lacks, ta};

/// A list takes milliseconds. Whoever waits for a FIFO or a name server would be found out by this.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home directory with files below .ssh.
pub(super) struct Home {
    dir: TempDir,
}

/// What `ta hosts` has said.
pub(super) struct Said {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: Option<i32>,
}

impl Home {
    pub(super) fn new() -> Self {
        let dir = TempDir::new();
        std::fs::create_dir(dir.join(".ssh")).unwrap();
        Self { dir }
    }

    pub(super) fn with(config: impl AsRef<[u8]>) -> Self {
        let home = Self::new();
        home.write("config", config);
        home
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A path below .ssh.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(".ssh").join(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// `ta hosts` of the file `config` there.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = ta(&["hosts", "-F"]);
        command.arg(self.file("config")).args(args);
        command.env("HOME", self.path());
        command
    }

    #[track_caller]
    pub(super) fn run(&self, args: &[&str]) -> Said {
        said(self.command(args))
    }

    #[track_caller]
    pub(super) fn report(&self) -> Value {
        let said = self.run(&["--json"]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{}", said.stdout);
        serde_json::from_str(&said.stdout).unwrap()
    }

    #[track_caller]
    pub(super) fn names(&self) -> Vec<String> {
        let said = self.run(&[]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        said.stdout.lines().map(str::to_owned).collect()
    }

    /// The only host, without where it stands.
    #[track_caller]
    pub(super) fn host(&self, name: &str) -> Value {
        let report = self.report();
        let hosts = report["hosts"].as_array().unwrap();
        let mut host = hosts.iter().find(|host| host["name"] == name).unwrap().clone();
        host.as_object_mut().unwrap().retain(|key, _| key != "file" && key != "line");
        host
    }

    /// The warnings, each as LINE: MESSAGE.
    #[track_caller]
    pub(super) fn warnings(&self) -> Vec<String> {
        let report = self.report();
        let warnings = report["warnings"].as_array().unwrap().iter();
        let text = |one: &Value| format!("{}: {}", one["line"], one["message"].as_str().unwrap());
        warnings.map(text).collect()
    }
}

#[track_caller]
pub(super) fn said(mut command: Command) -> Said {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |stream: &mut dyn std::io::Read| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("stderr".to_owned());
        let reader = builder.spawn_scoped(scope, || read(&mut stderr)).unwrap();
        let guard = std::thread::Builder::new().name("stdout".to_owned());
        let output = guard.spawn_scoped(scope, || read(&mut stdout)).unwrap();
        let status = wait(&mut child, PATIENCE);
        if status.is_none() {
            child.kill().unwrap();
            panic!("{command:?} is not over after {PATIENCE:?}");
        }
        Said {
            stdout: output.join().unwrap(),
            stderr: reader.join().unwrap(),
            code: status.unwrap().code(),
        }
    })
}

/// The name of the user that runs the tests.
pub(super) fn user() -> String {
    let Output { stdout, .. } = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(stdout).unwrap().trim().to_owned()
}

#[test]
fn names_without_wildcards_come_one_a_line_in_order_and_once() {
    let home = Home::with(
        "Host web db\nhost=db\n  HOST = \"cache\" 'queue' # not this\nHost *.example.org web? !no yes\n\
         Host\tweb\tlast\n# Host comment\n\"Host\" quoted\nHost a#b\n",
    );
    assert_eq!(home.names(), ["web", "db", "cache", "queue", "yes", "last", "quoted", "a#b"]);
}

#[test]
fn carriage_returns_byte_order_marks_and_long_lines_are_read() {
    let long = "x".repeat(100_000);
    let home = Home::with(format!("\u{feff}Host a\r\n\tPort 2200\r\n\r\nHost b \r\nHost {long} c"));
    assert_eq!(home.names(), ["a", "b", &long, "c"]);
    assert_eq!(home.host("a")["port"], 2200);
    assert!(home.warnings()[0].contains("byte order mark"), "{:?}", home.warnings());
}

#[test]
fn json_says_where_a_host_leads_and_where_it_stands() {
    let home = Home::with(
        "Host web\n  HostName %h.Example.org\n  User deploy\n  ProxyJump a,b:22\nHost db\n",
    );
    let file = home.file("config").to_str().unwrap().to_owned();
    assert_eq!(
        home.report(),
        json!({
            "hosts": [
                {"name": "web", "hostName": "web.example.org", "user": "deploy", "port": 22,
                 "proxyJump": ["a", "b:22"], "file": file, "line": 1},
                {"name": "db", "hostName": "db", "user": user(), "port": 22,
                 "proxyJump": [], "file": file, "line": 5},
            ],
            "warnings": [],
        })
    );
}

#[test]
fn the_long_list_is_a_table() {
    let home = Home::with(
        "Host web\n User deploy\n HostName ::1\nHost database\n User root\n Port 2222\n \
         ProxyJump bastion\nMatch exec true\n HostName no\nHost other\n User x\n",
    );
    let said = home.run(&["-l"]);
    assert_eq!(
        said.stdout,
        "web       deploy@[::1]:22\ndatabase  root@?:2222 via bastion\nother     x@?:22\n"
    );
}

#[test]
fn the_first_value_counts_and_defaults_come_last() {
    let home = Home::with(
        "Host web\n Port 1\n Port 2\nHost w*\n Port 3\n User w\nHost *\n User all\n ProxyJump j\n",
    );
    let expected =
        json!({"name": "web", "hostName": "web", "user": "w", "port": 1, "proxyJump": ["j"]});
    assert_eq!(home.host("web"), expected);
}

#[test]
fn match_is_decided_where_nothing_has_to_be_asked() {
    let home = Home::with(
        "Host web\n HostName www.example.org\nMatch host *.example.org originalhost web\n User found\n\
         Match user found\n Port 7\nMatch !all\n ProxyJump no\nMatch final host www.*\n ProxyJump yes\n\
         Match tagged x\n ProxyJump no\n",
    );
    assert_eq!(
        home.host("web"),
        json!({"name": "web", "hostName": "www.example.org", "user": "found", "port": 7,
               "proxyJump": ["yes"]})
    );
}

#[test]
fn a_command_of_match_exec_is_not_run_and_what_it_decides_is_null() {
    let home = Home::new();
    let trace = home.file("ran");
    home.write(
        "config",
        format!(
            "Host before\n User b\nMatch exec \"touch '{}'\"\n User maybe\n HostName maybe\n\
             Match host other exec true\n Port 1\nHost web\nHost *\n User all\n",
            trace.display()
        ),
    );
    let before = home.host("before");
    assert_eq!((&before["user"], &before["hostName"]), (&json!("b"), &Value::Null));
    let web = home.host("web");
    // Whether the name is another one decides about the port too.
    assert_eq!((&web["user"], &web["port"]), (&Value::Null, &Value::Null));
    assert!(!trace.exists());
}

#[test]
fn nothing_is_started_and_nobody_is_asked() {
    const NAME: &str = "nothing_is_started_and_nobody_is_asked";
    if lacks(NAME, "strace") {
        return;
    }
    let home = Home::with(
        "CanonicalizeHostname always\nMatch exec \"true\"\n Port 1\nMatch !exec false final\n Port 2\n\
         Match localnetwork 10.0.0.0/8\n Port 3\nHost web.example.org\n HostName www.example.org\n \
         ProxyCommand nc %h %p\n KnownHostsCommand /bin/true\n",
    );
    let trace = home.file("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=execve,fork,vfork,clone,clone3,connect,sendto", "-o"]);
    command.arg(&trace).arg(binary()).args(["hosts", "-l", "-F"]).arg(home.file("config"));
    let said = said(command);
    assert_eq!(said.stdout, format!("web.example.org  {}@?:?\n", user()), "{}", said.stderr);
    let trace = std::fs::read_to_string(trace).unwrap();
    // Each line is the process's number and the call. (Its arguments are paths, too.)
    let all = || trace.lines().filter_map(|line| Some(line.split_once(' ')?.1.trim_start()));
    let calls = |name: &str| all().filter(|call| call.starts_with(name)).count();
    assert_eq!(calls("execve("), 1, "{trace}");
    assert_eq!(calls("fork(") + calls("vfork(") + calls("clone"), 0, "{trace}");
    // The user database may have a socket of its own on this machine.
    assert!(!all().any(|call| call.contains("AF_INET")), "{trace}");
}

#[test]
fn a_name_that_would_be_looked_up_is_null() {
    let home = Home::with(
        "CanonicalizeHostname yes\nCanonicalDomains example.org\nHost web\nHost 10.0.0.1\nHost *.example.org\n Port 3\n",
    );
    let web = home.host("web");
    assert_eq!((&web["hostName"], &web["port"]), (&Value::Null, &Value::Null));
    let address = home.host("10.0.0.1");
    assert_eq!((&address["hostName"], &address["port"]), (&json!("10.0.0.1"), &json!(22)));
}

#[test]
fn what_a_second_pass_sets_is_null_where_it_may_not_come() {
    let home = Home::with(
        "Host web\n HostName 10.0.0.1\nMatch exec true\n CanonicalizeHostname yes\nMatch canonical\n Port 3\n",
    );
    let web = home.host("web");
    assert_eq!((&web["hostName"], &web["port"]), (&json!("10.0.0.1"), &Value::Null));
    let home = Home::with("Match canonical\n Port 3\nHost 10.0.0.1\n CanonicalizeHostname yes\n");
    assert_eq!(home.host("10.0.0.1")["port"], 3);
}

#[test]
fn what_ssh_would_not_take_is_a_warning_and_the_list_goes_on() {
    let home = Home::with(
        b"Host a\n Port many\n Port 4\nHost \"b\n Port 5\nUser x y\nHost c \"\" d\nMatch host\n Port 6\n\
          Include\nHost -oProxyCommand=evil e\xff f\nHostName\nHost g\n"
            .as_slice(),
    );
    let warnings = home.warnings();
    let lines: Vec<_> = warnings.iter().map(|text| text.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["2", "4", "6", "7", "8", "10", "11", "11", "12"], "{warnings:?}");
    assert_eq!(home.names(), ["a", "f", "g"]);
    assert_eq!(home.host("a")["port"], 4);
    let said = home.run(&[]);
    let first = said.stderr.lines().next().unwrap();
    let place = format!("ta: {}:2: ", home.file("config").display());
    assert!(first.starts_with(&place) && first.contains("many"), "{first}");
}

#[test]
fn what_would_do_something_to_a_terminal_is_shown_as_bytes() {
    let home = Home::with("Host a\x1b[2J\n User \x07\n");
    assert_eq!(home.run(&[]).stdout, "a\\x1b[2J\n");
    assert!(home.run(&["-l"]).stdout.contains("\\x07@"));
}

#[test]
fn no_hosts_are_no_failure() {
    for config in ["", "Host *\n User x\n"] {
        let said = Home::with(config).run(&[]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""));
        assert!(said.stderr.starts_with("ta: no hosts in "), "{}", said.stderr);
    }
    assert_eq!(Home::with("").report(), json!({"hosts": [], "warnings": []}));
    for none in ["none", "/dev/null"] {
        let said = said(ta(&["hosts", "--config", none]));
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{}", said.stderr);
    }
}

#[test]
fn a_file_that_is_asked_for_and_cannot_be_read_is_a_failure() {
    let said = Home::new().run(&[]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
    assert!(said.stderr.contains("config\": no such file"), "{}", said.stderr);
}

#[test]
fn the_time_grows_with_the_hosts_and_not_with_their_square() {
    let mut config = String::new();
    for number in 0..10_000 {
        config +=
            &format!("Host host{number}\n HostName 10.0.0.{}\n User u{number}\n", number % 250);
    }
    config += "Match host 10.0.0.7\n Port 7\nHost *\n User all\n";
    let home = Home::with(config);
    crate::support::best_of_three(Duration::from_secs(10), "10,000 hosts", || {
        let start = std::time::Instant::now();
        assert_eq!(home.names().len(), 10_000);
        start.elapsed()
    });
    assert_eq!(home.host("host7")["port"], 7);
    assert_eq!(home.host("host9999")["user"], "u9999");
}
