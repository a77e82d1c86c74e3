// What the tools ask of the environment: how often, and what if somebody else comes between.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const source = (name) => import(pathToFileURL(`${process.env.EXTENSION}/src/${name}`).href);
const { imageType, registerFiles } = await source("files.ts");
const { linesOf, registerFind, registerGrep } = await source("search.ts");
const { ExecError } = await source("client.ts");
const { ServerTransport } = await source("mcp.ts");

const about = { cwd: "/there/project", home: "/there", tmpdir: "/tmp" };
const base64 = (text) => Buffer.from(text).toString("base64");

// An environment that answers by a table of methods, and the tools on it.
function tools(answers) {
    const asked = [];
    const call = async (method, params) => {
        asked.push({ method, ...params });
        const answer = answers[method];
        if (!answer) throw new Error(`nobody should ask for ${method}`);
        return typeof answer === "function" ? answer(params) : answer;
    };
    const environment = { call, connect: async () => ({ client: { call }, about }) };
    const registered = {};
    const pi = { registerTool: (tool) => (registered[tool.name] = tool) };
    for (const register of [registerFiles, registerFind, registerGrep]) register(pi, environment);
    const run = async (name, params) => {
        const result = await registered[name].execute("id", params, undefined, undefined, { cwd: "/here" });
        return result.content.map((block) => block.text).join("");
    };
    return { run, asked };
}

test("a file is read, written and listed in one round trip", async () => {
    const entries = Array.from({ length: 500 }, (_, n) => ({ name: `f${n}`, type: n % 2 ? "file" : "directory" }));
    const { run, asked } = tools({
        "fs/readFile": { dataBase64: base64("one\ntwo\n"), size: 8, eof: true, version: "1" },
        "fs/writeFile": { size: 1, version: "2", atomic: true },
        "fs/readdir": { entries },
        "fs/find": { entries: [{ path: "a", type: "file" }, { path: "b", type: "directory" }], truncated: false },
        "fs/grep": { matches: [{ path: "a", line: 3, text: "it" }], truncated: false },
    });
    assert.equal(await run("read", { path: "x" }), "one\ntwo\n");
    assert.equal(await run("write", { path: "~/deep/x", content: "ü" }), "Successfully wrote to ~/deep/x");
    assert.equal((await run("ls", {})).split("\n").filter((line) => line.endsWith("/")).length, 250);
    assert.equal(await run("find", { pattern: "*" }), "a\nb/");
    assert.equal(await run("grep", { pattern: "it" }), "a:3: it");
    assert.deepEqual(asked.map(({ method, path }) => [method, path]), [
        ["fs/readFile", "/there/project/x"],
        ["fs/writeFile", "/there/deep/x"],
        ["fs/readdir", "/there/project"],
        ["fs/find", "/there/project"],
        ["fs/grep", "/there/project"],
    ]);
    assert.equal(asked[1].createParents, true);
    assert.equal(asked[1].dataBase64, base64("ü"));
});

test("an edit does not take away what somebody else has written meanwhile", async () => {
    const edits = [{ oldText: "one", newText: "1" }];
    const { run, asked } = tools({
        "fs/stat": { writable: true },
        "fs/readFile": { dataBase64: base64("one\n"), size: 4, eof: true, version: "7" },
        "fs/writeFile": ({ ifVersion }) => {
            assert.equal(ifVersion, "7");
            throw new ExecError("another version", "CELL_TA_EXEC_CONFLICT");
        },
    });
    await assert.rejects(run("edit", { path: "x", edits }), /has been changed by somebody else meanwhile/);
    assert.deepEqual(asked.map(({ method }) => method).sort(), ["fs/readFile", "fs/stat", "fs/writeFile"]);
});

test("a file that may not be written is not edited", async () => {
    const { run } = tools({
        "fs/stat": { writable: false },
        "fs/readFile": { dataBase64: base64("one\n"), size: 4, eof: true, version: "7" },
    });
    const edits = [{ oldText: "one", newText: "1" }];
    await assert.rejects(run("edit", { path: "x", edits }), /Could not edit file: x. Error code: EACCES./);
});

test("a long file comes in parts, and one that grows comes to an end", async () => {
    const size = 10_000_000;
    const { run, asked } = tools({
        "fs/readFile": ({ offset, length }) => ({
            // (It has grown since it was first asked for.)
            dataBase64: Buffer.alloc(Math.min(length, 2 * size - offset), "line\n").toString("base64"),
            size: offset === 0 ? size : 2 * size,
            eof: false,
            version: "1",
        }),
    });
    assert.match(await run("read", { path: "x", limit: 1 }), /^line\n\n\[\d+ more lines in file/);
    assert.deepEqual(asked.map(({ offset }) => offset), [0, 4194304, 8388608]);
});

test("lines around matches are told once, in order, and as what they are", () => {
    const match = (line, before, after) => ({ path: "f", line, text: `l${line}`, before, after });
    const lines = linesOf([match(3, ["l1", "l2"], ["l4", "l5"]), match(5, ["l3", "l4"], ["l6"]), { path: "g", line: 1, text: "x" }]);
    const told = lines.map(({ name, line, text, matches }) => `${name}${matches ? ":" : "-"}${line} ${text}`);
    assert.deepEqual(told, ["f-1 l1", "f-2 l2", "f:3 l3", "f-4 l4", "f:5 l5", "f-6 l6", "g:1 x"]);
});

test("images are known by their content", () => {
    const bitmap = Buffer.alloc(60);
    bitmap.write("BM", "latin1");
    bitmap.writeUInt32LE(54, 10);
    bitmap.writeUInt32LE(40, 14);
    bitmap.writeUInt16LE(1, 26);
    bitmap.writeUInt16LE(24, 28);
    const png = (chunk) => `\x89PNG\r\n\x1a\n\0\0\0\rIHDR${"\0".repeat(17)}\0\0\0\x08${chunk}`;
    for (const [content, expected] of [
        [png("IDAT"), "image/png"],
        [png("acTL"), null],
        ["\x89PNG\r\n\x1a\n", null],
        ["\xff\xd8\xff\xe0", "image/jpeg"],
        ["\xff\xd8\xff\xf7", null],
        ["GIF89a", "image/gif"],
        ["RIFF....WEBP", "image/webp"],
        ["RIFF....WAVE", null],
        [bitmap, "image/bmp"],
        ["BM, said he", null],
        ["", null],
    ]) {
        assert.equal(imageType(Buffer.from(content, "latin1")), expected, String(content));
    }
});

// A server of MCP, started in an environment that is told what to do with it.
async function server(entry, spawned) {
    const asked = [];
    const client = {
        spawn: async (params, onOutput, onExit) => {
            asked.push(["spawn", params]);
            spawned?.({ say: (message) => onOutput("stdout", Buffer.from(`${JSON.stringify(message)}\n`)), onOutput, onExit });
            return "p";
        },
        call: async (method, params) => void asked.push([method, params]),
        kill: async (id, grace) => void asked.push(["kill", grace]),
        onLoss: () => () => {},
    };
    const transport = new ServerTransport({ connect: async () => ({ client, about }) }, entry);
    const heard = [];
    transport.onMessage((message) => heard.push(message));
    const closed = new Promise((resolve) => transport.onClose(resolve));
    await transport.start();
    return { transport, asked, heard, closed };
}

test("a server is started where it should be, with no variables but its own", async () => {
    process.env.FROM_HERE = "filled in";
    const env = { OWN: "x", FILLED: "a ${FROM_HERE} b" };
    const { asked } = await server({ name: "s", config: { command: "~/bin/s", args: ["~", "~x"], env, cwd: "sub" } });
    assert.deepEqual(asked[0][1], {
        command: "/there/bin/s",
        args: ["/there", "~x"],
        cwd: "/there/project/sub",
        env: { OWN: "x", FILLED: "a filled in b" },
    });
    for (const value of ["${NOT_SET_ANYWHERE}", "!echo it ran"]) {
        await assert.rejects(server({ name: "s", config: { command: "s", env: { X: value } } }), /MCP server "s" env "X": /);
    }
});

test("a question for roots is answered by the environment's", async () => {
    let far;
    const { transport, asked } = await server({ name: "s", config: { command: "s" } }, (it) => (far = it));
    far.say({ jsonrpc: "2.0", id: 5, method: "roots/list" });
    await transport.send({ jsonrpc: "2.0", id: 5, result: { roots: [{ uri: "file:///here" }] } });
    const sent = JSON.parse(Buffer.from(asked.at(-1)[1].chunk, "base64"));
    assert.deepEqual(sent.result.roots, [{ uri: "file:///there/project", name: "project" }]);
});

test("a server that has ended before it was spoken to answers why", async () => {
    const end = ({ onOutput, onExit }) => {
        onOutput("stderr", Buffer.from("no such file\n"));
        onExit({ exitCode: 3, signal: null });
    };
    const { transport, heard, closed } = await server({ name: "s", config: { command: "s" } }, end);
    await transport.send({ jsonrpc: "2.0", id: 1, method: "initialize" });
    await closed;
    assert.equal(heard[0].id, 1);
    assert.equal(heard[0].error.message, "the server has ended (code 3)\nno such file");
});

test("a server that does not end by itself is ended", async (context) => {
    context.mock.timers.enable({ apis: ["setTimeout"] });
    let far;
    const { transport, asked } = await server({ name: "s", config: { command: "s" } }, (it) => (far = it));
    const closing = transport.close();
    await Promise.resolve();
    assert.deepEqual(asked.at(-1), ["process/write", { processId: "p", eof: true }]);
    context.mock.timers.tick(2000);
    await new Promise(setImmediate);
    assert.deepEqual(asked.at(-1), ["kill", 2000]);
    far.onExit({ exitCode: null, signal: "SIGTERM" });
    await closing;
});
