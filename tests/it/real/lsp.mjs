// An editor: speaks to a language server over a command by vscode-jsonrpc, as VS Code does. Reads on
// stdin what to do, {packages, command, args, env, root, file, text, at,
// diagnostic}; prints what came.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const job = JSON.parse(readFileSync(0));
const require = createRequire(`${job.packages}/`);
const rpc = require("vscode-jsonrpc/node");

const child = spawn(job.command, job.args, { env: { ...process.env, ...job.env } });
const end = new Promise((done) => child.once("close", (code, signal) => done({ code, signal })));
let stderr = "";
child.stderr.on("data", (data) => (stderr += data));
const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(child.stdout),
    new rpc.StreamMessageWriter(child.stdin),
);
const uri = `file://${job.file}`;
const diagnosed = new Promise((done) =>
    connection.onNotification("textDocument/publishDiagnostics", (found) => {
        const messages = found.diagnostics.map((one) => one.message);
        if (found.uri === uri && messages.includes(job.diagnostic)) done(messages);
    }),
);
connection.onRequest(() => null);
connection.listen();

// No process of this machine is one that the server could watch.
const capabilities = { textDocument: { publishDiagnostics: {}, hover: {}, definition: {} } };
// Before it has read the project, answers from the one file alone would come.
const initializationOptions = { tsserver: { useSyntaxServer: "never" } };
const rootUri = `file://${job.root}`;
const hello = { processId: null, rootUri, capabilities, initializationOptions };
const { serverInfo } = await connection.sendRequest("initialize", hello);
await connection.sendNotification("initialized", {});
const document = { uri, languageId: "typescript", version: 1, text: job.text };
await connection.sendNotification("textDocument/didOpen", { textDocument: document });

const at = { textDocument: { uri }, position: job.at };
const hover = await connection.sendRequest("textDocument/hover", at);
const definition = await connection.sendRequest("textDocument/definition", at);
const completion = await connection.sendRequest("textDocument/completion", at);
const labels = (completion.items ?? completion).map((item) => item.label);
const diagnostics = await diagnosed;

await connection.sendRequest("shutdown");
await connection.sendNotification("exit");
const ended = await end;
console.log(JSON.stringify({ serverInfo, hover, definition, labels, diagnostics, ended, stderr }));
