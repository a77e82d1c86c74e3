# A stdio MCP server for tests. Its arguments say how it behaves:
#   refuses   exits with 3 before it has said a word
#   lingers   does not end with its stdin        stays   nor on SIGTERM
import json, os, signal, sys, time

modes = sys.argv[1:]
waiting = {}


def send(message):
    message["jsonrpc"] = "2.0"
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(id, value):
    send({"id": id, "result": {"content": [{"type": "text", "text": value}]}})


def call(id, name, arguments, meta):
    if name == "echo":
        text(id, arguments["text"])
    elif name == "get env":
        text(id, os.environ.get(arguments["name"], "(unset)"))
    elif name == "cwd":
        text(id, os.getcwd())
    elif name == "roots":
        waiting["roots"] = id
        send({"id": "r/1", "method": "roots/list"})
    elif name == "slow":
        token = meta.get("progressToken")
        send({"method": "notifications/progress",
              "params": {"progressToken": token, "progress": 1, "total": 2, "message": "half"}})
        waiting["slow"] = id
    elif name == "cancelled":
        text(id, waiting.get("was", "(nothing)"))
    elif name == "fail":
        send({"id": id, "error": {"code": -32007, "message": "as asked", "data": [1]}})
    elif name == "die":
        sys.exit(7)


if "refuses" in modes:
    print("there is no key", file=sys.stderr)
    sys.exit(3)
if "stays" in modes:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready to serve", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        send({"id": message["id"], "result": {
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"}}})
    elif method == "tools/list":
        names = ["echo", "get env", "cwd", "roots", "slow", "cancelled", "fail", "die"]
        at = int(params.get("cursor", 0))
        page = {"tools": [{"name": name, "inputSchema": {"type": "object"}}
                          for name in names[at:at + 3]]}
        if at + 3 < len(names):
            page["nextCursor"] = str(at + 3)
        send({"id": message["id"], "result": page})
    elif method == "tools/call":
        call(message["id"], params["name"], params.get("arguments", {}), params.get("_meta", {}))
    elif method == "notifications/cancelled":
        waiting["was"] = str(params["requestId"] == waiting.get("slow"))
    elif message.get("id") == "r/1":
        text(waiting["roots"], message["result"]["roots"][0]["uri"])
while "lingers" in modes or "stays" in modes:
    time.sleep(1000)
