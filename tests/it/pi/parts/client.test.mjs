// The client of ExecRpc, against a `ta connect` that is a script: what it sends, and what it makes of
// what comes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const source = (name) => import(pathToFileURL(`${process.env.EXTENSION}/src/${name}`).href);
const { Client, ConnectionLost, ExecError, Lines } = await source("client.ts");
const { Characters, run } = await source("command.ts");

// A far side in a few words: `answer(message)` is called with each, `say` sends.
function client(answer) {
    const far = `
        const say = (message) => process.stdout.write(JSON.stringify(message) + "\\n");
        const chunk = (text) => Buffer.from(text, "latin1").toString("base64");
        const answer = ${answer};
        require("node:readline").createInterface({ input: process.stdin })
            .on("line", (line) => answer(JSON.parse(line)));
    `;
    return new Client(process.execPath, ["-e", far]);
}

const kept = [];
function open(answer) {
    const opened = client(answer);
    kept.push(opened);
    return opened;
}
test.after(() => kept.forEach((client) => client.close()));

test("answers go to whoever asked, in whatever order they come", async () => {
    const far = open(`(() => {
        const waiting = [];
        return (message) => {
            waiting.unshift(message);
            if (waiting.length === 3) for (const { id, params } of waiting) say({ id, result: params.n });
        };
    })()`);
    const asked = [1, 2, 3].map((n) => far.call("ping", { n }));
    assert.deepEqual(await Promise.all(asked), [1, 2, 3]);
});

test("a refusal has the code of the environment", async () => {
    const far = open(`({ id }) => say({ id, error: { code: -32000, message: "no", data: { code: "ENOENT" } } })`);
    await assert.rejects(far.call("fs/stat", {}), (error) => {
        assert.ok(error instanceof ExecError);
        assert.equal(error.code, "ENOENT");
        assert.equal(error.message, "no");
        return true;
    });
});

test("what is not JSON, and answers to nothing, are passed over", async () => {
    const far = open(`({ id }) => {
        process.stdout.write("oh no\\n\\r\\n");
        say({ id: 99, result: 1 });
        say({ method: "process/output", params: { processId: "none", chunk: "" } });
        say({ id, result: "it" });
    }`);
    assert.equal(await far.call("ping", {}), "it");
});

test("output comes before the end, each stream by itself", async () => {
    const far = open(`({ id, params: { processId } }) => {
        say({ method: "process/output", params: { processId, seq: 1, chunk: chunk("out") } });
        say({ method: "process/stderr", params: { processId, seq: 2, chunk: chunk("err") } });
        say({ id, result: { exitCode: 0 } });
    }`);
    const seen = [];
    const running = far.exec({ command: "x" }, (stream, bytes) => void seen.push([stream, `${bytes}`]));
    assert.equal((await running.done).exitCode, 0);
    assert.deepEqual(seen, [["stdout", "out"], ["stderr", "err"]]);
});

test("what has not been taken is not acknowledged", async () => {
    const far = open(`(() => {
        let sent = 0, owed = 0, id, processId;
        const fill = () => {
            while (sent < 64 && owed + 65536 <= 1024 * 1024) {
                say({ method: "process/output", params: { processId, seq: ++sent, chunk: chunk("x".repeat(65536)) } });
                owed += 65536;
            }
            if (sent === 64 && id !== undefined) { say({ id, result: { exitCode: 0 } }); id = undefined; }
        };
        return (message) => {
            if (message.method === "process/exec") ({ id, params: { processId } } = message);
            if (message.method === "process/ack") owed -= message.params.bytes;
            if (message.method === "ping") return say({ id: message.id, result: { sent, owed } });
            fill();
        };
    })()`);
    let seen = 0;
    let release;
    const gate = new Promise((resolve) => (release = resolve));
    const { done } = far.exec({ command: "x" }, (_, bytes) => {
        seen += bytes.length;
        return gate;
    });
    // Nothing is taken yet: one window has come, and no more does.
    while (seen < 1024 * 1024) await new Promise(setImmediate);
    assert.equal((await far.call("ping", {})).sent, 16);
    release();
    await done;
    assert.equal(seen, 64 * 65536);
    const { owed } = await far.call("ping", {});
    assert.ok(owed < 512 * 1024, `${owed} bytes are not acknowledged`);
});

test("a program's end comes after its output, and once", async () => {
    const far = open(`({ id, params: { processId } }) => {
        say({ id, result: { pid: 1 } });
        say({ method: "process/output", params: { processId, seq: 1, chunk: chunk("last") } });
        for (const seq of [2, 3]) say({ method: "process/exit", params: { processId, seq, exitCode: 3, signal: null } });
    }`);
    const seen = [];
    await new Promise((resolve) => {
        far.spawn({ command: "x" }, (_, bytes) => void seen.push(`${bytes}`), (exit) => resolve(seen.push(exit)));
    });
    await far.call("process/kill", { processId: "other" });
    assert.deepEqual(seen, ["last", { exitCode: 3, signal: null }]);
});

test("the end of the connection is told to all that wait, with its reason", async () => {
    const far = open(`() => { process.stderr.write("ta: cannot reach it\\n"); process.exit(125); }`);
    const told = [];
    far.onLoss((loss) => told.push(loss.message));
    const asked = [far.call("a", {}), far.exec({ command: "x" }, () => {}).done, far.spawn({ command: "x" }, () => {}, () => {})];
    for (const one of await Promise.allSettled(asked)) {
        assert.ok(one.reason instanceof ConnectionLost);
        assert.equal(one.reason.message, "cannot reach it");
    }
    await assert.rejects(far.call("later", {}), /cannot reach it/);
    assert.deepEqual(told, ["cannot reach it"]);
});

test("a program that cannot be started is told to the first call", async () => {
    const none = new Client("/no/such/program", []);
    await assert.rejects(none.call("ping", {}), /cannot start \/no\/such\/program: /);
});

test("lines are whole, however they come", () => {
    const seen = [];
    const lines = new Lines((line) => seen.push(line));
    const text = Buffer.from('{"a":"ü"}\r\n\n{"b":1}\nrest');
    for (const byte of text) lines.push(Buffer.from([byte]));
    lines.push(text);
    assert.deepEqual(seen, ['{"a":"ü"}', '{"b":1}', 'rest{"a":"ü"}', '{"b":1}']);
});

test("a character that comes in pieces is whole, whatever the other stream writes between", () => {
    const characters = new Characters();
    const euro = Buffer.from("€𝄞");
    let text = "";
    for (const byte of euro) {
        text += characters.push("stdout", Buffer.from([byte]));
        text += characters.push("stderr", Buffer.from("."));
    }
    text += characters.rest();
    assert.equal(text, "..€....𝄞.");
});

test("bytes that are no character are not held back", () => {
    const characters = new Characters();
    for (const bytes of [[0xff], [0x80, 0x80, 0x80, 0x80], [0xc0], [0xe2, 0x28], [0x61, 0xf5]]) {
        assert.deepEqual([...characters.push("stdout", Buffer.from(bytes))], bytes);
    }
    assert.deepEqual([...characters.push("stdout", Buffer.from([0xe2, 0x82]))], []);
    assert.deepEqual([...characters.rest()], [0xe2, 0x82]);
});

// What `run` needs of an environment.
const environment = (far) => ({ connect: async () => ({ client: far, about: { cwd: "/x", home: "/", tmpdir: "/tmp" } }) });

test("a command that is broken off before it starts is not sent", async () => {
    const far = open(`(message) => say({ id: message.id, result: message })`);
    const signal = AbortSignal.abort();
    await assert.rejects(run(environment(far), { command: "x", signal }, () => {}), { message: "aborted" });
});

test("breaking off settles although nobody answers, and nothing comes after it", async () => {
    const far = open(`(() => {
        let processId;
        return (message) => {
            if (message.method === "process/exec") ({ processId } = message.params);
            const params = { processId, seq: 1, chunk: chunk(message.method) };
            say({ method: "process/output", params });
            if (message.method === "ping") say({ id: message.id, result: {} });
        };
    })()`);
    const abort = new AbortController();
    const seen = [];
    const running = run(environment(far), { command: "x", signal: abort.signal }, (bytes) => {
        seen.push(`${bytes}`);
        abort.abort();
    });
    await assert.rejects(running, { message: "aborted" });
    const settled = [...seen];
    await far.call("ping", {});
    assert.deepEqual(seen, settled);
    assert.deepEqual(seen, ["process/exec", "process/kill"]);
});

test("the ends of a command are those that pi knows", async () => {
    const far = open(`({ id, params }) => {
        const ends = {
            code: { exitCode: 7, signal: null }, signal: { exitCode: null, signal: "SIGKILL" },
            timeout: { exitCode: null, signal: "SIGKILL", timedOut: true },
        };
        say({ id, result: ends[params.command] });
    }`);
    const end = (command, timeout) => run(environment(far), { command, timeout }, () => {});
    assert.deepEqual(await end("code"), { exitCode: 7 });
    assert.deepEqual(await end("signal"), { exitCode: 137 });
    await assert.rejects(end("timeout", 1.5), { message: "timeout:1.5" });
    await assert.rejects(end("code", 0), /Invalid timeout: must be a finite number of seconds/);
    await assert.rejects(end("code", 3e6), /Invalid timeout: maximum is 2147483.647 seconds/);
});
