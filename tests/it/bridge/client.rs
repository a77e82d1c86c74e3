//! A client in another language, of thirty lines.

use std::process::Command;

use crate::run::Running;
use crate::support::{TOKEN, TempDir, binary, lacks};

const CLIENT: &str = r#"
import base64, json, subprocess, sys
ta = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
output, next_id = {}, 0

def call(method, **params):
    global next_id
    next_id += 1
    ta.stdin.write(json.dumps({"id": next_id, "method": method, "params": params}).encode() + b"\n")
    ta.stdin.flush()
    for line in ta.stdout:
        message = json.loads(line)
        if message.get("method") == "process/output":
            params = message["params"]
            output.setdefault(params["processId"], b"")
            output[params["processId"]] += base64.b64decode(params["chunk"])
        elif message.get("id") == next_id:
            if "error" in message:
                raise SystemExit(message["error"]["message"])
            return message["result"]
    raise SystemExit("the connection was lost")

about = call("initialize")
done = call("process/exec", processId="a", command="echo hello; exit 3")
assert done["exitCode"] == 3 and output["a"] == b"hello\n", (done, output)
content = bytes(range(256)) * (8 * 4096)
call("fs/writeFile", path="big", dataBase64=base64.b64encode(content).decode())
assert base64.b64decode(call("fs/readFile", path="big")["dataBase64"]) == content
call("process/exec", processId="b", command="cat big")
assert output["b"] == content, len(output["b"])
ta.stdin.close()
assert ta.wait() == 0
print("fine on", about["os"])
"#;

#[test]
fn a_python_client_of_thirty_lines_does_all_of_it() {
    if lacks("a_python_client_of_thirty_lines_does_all_of_it", "python3") {
        return;
    }
    for remote in [true, false] {
        let dir = TempDir::new();
        let server = crate::support::Setup::new().args(["--cwd", dir.path().to_str().unwrap()]);
        let server = remote.then(|| server.listen());
        let script = dir.write("client.py", CLIENT);
        let mut command = Command::new("python3");
        command.arg(script).arg(binary()).arg("connect").current_dir(dir.path());
        command.env_remove("TA_EXEC_URL").env_remove("TA_EXEC_TOKEN");
        if let Some(server) = &server {
            command.env("TA_EXEC_URL", crate::run::url(server)).env("TA_EXEC_TOKEN", TOKEN);
        }
        let done = Running::start(command).finish();
        assert!(done.code == 0 && done.text().starts_with("fine on"), "{done:?}");
    }
}
