// A host of an MCP server: the official SDK's client over a command. Reads on stdin what to do,
// {packages, command, args, env, calls: [{tool, arguments}], stay}; prints as one line what came.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const job = JSON.parse(readFileSync(0));
const require = createRequire(`${job.packages}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const { command, args, env } = job;
const transport = new StdioClientTransport({ command, args, env, stderr: "pipe" });
let stderr = "";
transport.stderr.on("data", (data) => (stderr += data));
const client = new Client({ name: "host", version: "1" });
// The SDK tells of progress that it reads together with the answer only as an error.
let late = [];
client.onerror = (error) => late.push(error.message);
try {
    await client.connect(transport);
} catch (error) {
    console.log(JSON.stringify({ refused: error.message, stderr }));
    process.exit();
}
// The SDK shows nobody how the command ended.
const child = transport._process;
const end = new Promise((done) => child.once("close", (code, signal) => done({ code, signal })));

const tools = (await client.listTools()).tools.map((tool) => tool.name);
const resources = client.getServerCapabilities().resources
    ? (await client.listResources()).resources
    : [];
const answers = [];
for (const { tool, arguments: given } of job.calls) {
    const progress = [];
    late = [];
    const onprogress = (step) => progress.push([step.progress, step.total]);
    const call = { name: tool, arguments: given };
    const answer = await client.callTool(call, undefined, { onprogress, timeout: 10_000 });
    await new Promise(setImmediate);
    const text = answer.content.map((part) => part.text).join("");
    answers.push({ text, failed: answer.isError ?? false, progress, late });
}
const resource = resources.length
    ? (await client.readResource({ uri: resources[0].uri })).contents[0].text
    : null;

const came = { server: client.getServerVersion().name, tools, resource, answers };
if (job.stay) {
    console.log(JSON.stringify({ ...came, pid: transport.pid }));
    await end;
} else {
    const start = Date.now();
    await client.close();
    const ended = await end;
    console.log(JSON.stringify({ ...came, ended, closing: Date.now() - start, stderr }));
}
