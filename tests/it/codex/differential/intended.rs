//! In what the two servers differ, and why.

pub(super) struct Intended {
    pub(super) family: &'static str,
    pub(super) group: &'static str,
    /// What is in the step.
    pub(super) step: &'static str,
    /// What is in our answer.
    pub(super) ours: &'static str,
    pub(super) why: &'static str,
}

const fn at(
    family: &'static str,
    group: &'static str,
    step: &'static str,
    ours: &'static str,
    why: &'static str,
) -> Intended {
    Intended { family, group, step, ours, why }
}

const PARAMS: &str = "params are looked at by the method that has some, and what is wrong in them is said to \
    the request's own id";
const PASSED: &str =
    "what asks for nothing is passed over; ending the connection would end a session for it";
const MACHINE: &str = "another program on the machine: its version, and no capability";
const POSITIONS: &str = "params have names";
const ABSENT: &str = "it is not offered, and no capability says that it is";
const SANDBOX: &str = "there is no sandbox, so nothing runs that asks for one";
const NONE: &str = "what asks for no sandbox is in none";
const TOLD: &str = "who is asking is nobody's business";
const PARAM: &str =
    "a string with a NUL byte, and a program without a name, are mistakes in the params";
const PATH: &str = "what is found in the directory itself is called by it";
const CODE: &str = "exit codes of terminals are those of pipes: 128 and the signal";
const INPUT: &str = "who is gone takes no input, and that is what is said of it";
const HOST: &str = "the URI of another machine is a mistake in the params wherever it is";
const DIRECTORY: &str =
    "a directory that is read as a file is answered as one that is written as a file";
const BASE64: &str = "what is not Base64 is a mistake in the params wherever it is";
const HANDLE: &str = "a handle stays open when a call about it has failed, until it is closed";
const FORCE: &str = "below a file there is nothing, and nothing is left to remove";
const ITSELF: &str = "a copy onto itself is refused";
const REPLACED: &str = "a copy takes the place of a link, and does not write through it (Codex's own empties a \
    file that is copied onto a link to itself)";
const COPIED: &str = "a copy has the modes and the FIFOs of what is copied";
const RECURSIVE: &str =
    "a directory that is copied without `recursive` is answered as any that is no file";
const COUNTED: &str = "a link to a directory counts as other links do";
const HALF: &str = "of a directory that could not be copied nothing is left";

pub(super) const INTENDED: &[Intended] = &[
    at("messages", "parse", r#"\"a\":1,\"a\":2"#, "-32600", PARAMS),
    at("messages", "parse", "[[[[[", "-32602", PARAMS),
    at("messages", "parse", "ud800", "-32602", PARAMS),
    at("messages", "ids", r#"\"trace\":\"x\""#, "ready", PARAMS),
    at("messages", "parse", r#"\"result\""#, "nothing", PASSED),
    at("messages", "stray error", "", "nothing", PASSED),
    at("messages", "initialized too early", "", "nothing", PASSED),
    at("messages", "unknown notification", "", "nothing", PASSED),
    at("messages", "before initialize", r#""initialize""#, "ta ", MACHINE),
    at("messages", "initialize twice", "environment/info", "ta ", MACHINE),
    at("messages", "initialize by position", "", "-32602", POSITIONS),
    at("messages", "what is not offered", "fs/watchMissing", "-32601", ABSENT),
    at("messages", "what is not offered", "environmentConfig/read", "-32601", ABSENT),
    at("messages", "what is not offered", "http/request", "-32601", ABSENT),
    at("messages", "what is not offered", "capabilityRoots/discoverV1", "-32601", ABSENT),
    at("messages", "what is not offered", "capabilities/discoverV2", "-32601", ABSENT),
    at("messages", "sandbox", r#""type":"managed""#, "-32600", SANDBOX),
    at("messages", "sandbox", r#""type":"external""#, "-32600", SANDBOX),
    at("messages", "sandbox", r#""enforceManagedNetwork":true"#, "-32600", SANDBOX),
    at("messages", "sandbox", "await", "it was not started", SANDBOX),
    at("messages", "sandbox", r#"{"await":"m"}"#, r#""file\nw2\n""#, SANDBOX),
    at("messages", "sandbox", r#""type":"disabled""#, "none", NONE),
    at("messages", "sandbox", r#""threadId":"t""#, "none", TOLD),
    at("messages", "sandbox", r#"{"await":"f"}"#, "hi", TOLD),
    at("starts", "start params", r#""metadata":1"#, "none", TOLD),
    at("starts", "start params", r#""shellSnapshot":1"#, "none", TOLD),
    at("starts", "start program", r#""argv":[""]"#, "-32602", PARAM),
    at("starts", "start program", r#"a\u0000b"#, "-32602", PARAM),
    at("starts", "start program", r#"{"await":"o"}"#, "./prog", PATH),
    at("variables", "environment", r#"x\u0000y"#, "-32602", PARAM),
    at("output", "terminal", r#"{"await":"g"}"#, "130", CODE),
    at("control", "terminate", r#"{"await":"c"}"#, "137", CODE),
    at("control", "stdin", r#""processId":"a","writeId":"3""#, "stdinClosed", INPUT),
    at("control", "stdin", r#""processId":"d","writeId":"7""#, "stdinClosed", INPUT),
    at("looks", "fs/readFile", "file://other", "-32602", HOST),
    at("looks", "fs/getMetadata", "file://other", "-32602", HOST),
    at("looks", "fs/canonicalize", "file://other", "-32602", HOST),
    at("looks", "fs/readDirectory", "file://other", "-32602", HOST),
    at("looks", "fs/readFile", "", "-32603", DIRECTORY),
    at("looks", "fs/readFile not following", r#""path":"$U/dir""#, "-32603", DIRECTORY),
    at("content", "fs/open", r#""handleId":"c""#, "-32603", DIRECTORY),
    at("content", "fs/writeFile", "dataBase64", "-32602", BASE64),
    at("content", "fs/open", r#""offset":18446744073709551615"#, "-32600", HANDLE),
    at("content", "fs/open", r#""len":1048576"#, "aGVsbG8=", HANDLE),
    at("content", "fs/open", "fs/writeBlock", "-32603", HANDLE),
    at("content", "fs/writeBlock", r#""offset":20"#, "{}", HANDLE),
    at("content", "fs/writeBlock", "$U/new", "AAAABmYXI=", HANDLE),
    at("trees", "fs/remove", "$U/dir/sub/deep/x", "{}", FORCE),
    at("trees", "fs/copy", r#""destinationPath":"$U/file""#, "-32600", ITSELF),
    at("trees", "fs/copy", r#""destinationPath":"$U/link""#, "-32600", ITSELF),
    at("trees", "fs/copy", r#""destinationPath":"$U/c6""#, "{}", REPLACED),
    at("trees", "fs/copy", r#"{"await":"m"}"#, "./dangling f ", REPLACED),
    at("trees", "fs/copy", r#""destinationPath":"$U/c7""#, "{}", COPIED),
    at("trees", "fs/copy", r#"{"await":"m"}"#, "./c10/fifo p ", COPIED),
    at("trees", "fs/copy", r#""recursive":false,"sourcePath":"$U/dir""#, "-32603", RECURSIVE),
    at("trees", "fs/walk", r#""maxEntries":12"#, "true", COUNTED),
    at("trees", "permissions", "fs/walk", "$D/c3", HALF),
    at("trees", "permissions", r#"{"await":"m"}"#, "./c3", HALF),
];
