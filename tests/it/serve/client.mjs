// An agent: the official SDK's client, over a command or by HTTP. Reads on stdin what to do,
// {packages, command, args, env} or {packages, url, token}, and then {calls, victim, seen}: a
// command line that does not end, and a file that is made once it has been seen. Prints what came.
import { createRequire } from "node:module";
import { existsSync, readFileSync } from "node:fs";

const job = JSON.parse(readFileSync(0));
const require = createRequire(`${job.packages}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const http = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

let transport;
if (job.url) {
    const headers = job.token ? { Authorization: `Bearer ${job.token}` } : {};
    const options = { requestInit: { headers } };
    transport = new http.StreamableHTTPClientTransport(new URL(job.url), options);
} else {
    const { command, args, env } = job;
    transport = new StdioClientTransport({ command, args, env, stderr: "ignore" });
}
const client = new Client({ name: "agent", version: "1" });
const errors = [];
client.onerror = (error) => errors.push(error.message);
await client.connect(transport);
const child = transport._process;
const end = child && new Promise((done) => child.once("close", (code, signal) => done({ code, signal })));

const tools = (await client.listTools()).tools.map((tool) => tool.name);
const answers = [];
for (const { tool, arguments: given } of job.calls) {
    const progress = [];
    const onprogress = (step) => progress.push(step.message ?? step.progress);
    const options = { onprogress, timeout: 10_000, resetTimeoutOnProgress: true };
    try {
        const answer = await client.callTool({ name: tool, arguments: given }, undefined, options);
        const text = answer.content.map((part) => part.text ?? part.mimeType).join("");
        answers.push({ text, failed: answer.isError ?? false, progress });
    } catch (error) {
        answers.push({ thrown: error.message });
    }
}

// A call that is given up: it must have begun, which its progress tells.
const abort = new AbortController();
const command = `echo begun; ${job.victim}`;
const begun = new Promise((done) => {
    const options = { signal: abort.signal, onprogress: () => done(), timeout: 10_000 };
    const call = { name: "bash", arguments: { command } };
    client.callTool(call, undefined, options).catch((error) => answers.push({ thrown: `${error}` }));
});
await begun;
console.log("begun");
// Until whoever has started this has seen the command run.
while (!existsSync(job.seen)) await new Promise((done) => setTimeout(done, 10));
abort.abort("enough");
const after = await client.callTool({ name: "bash", arguments: { command: "echo on" } });

if (job.url) await transport.terminateSession();
const start = Date.now();
await client.close();
const ended = end && (await end);
const server = client.getServerVersion()?.name;
const came = { tools, answers, after: after.content[0].text, ended, closing: Date.now() - start, errors, server };
console.log(JSON.stringify(came));
