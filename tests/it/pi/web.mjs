// An MCP server that is reached by HTTP, with one tool. Prints the port it listens on, then each
// method that it is asked for, as lines of JSON; it ends when its stdout is closed.
import http from "node:http";

process.stdout.on("error", () => process.exit());
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const answers = {
    initialize: ({ protocolVersion }) => ({
        protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "web", version: "1" },
    }),
    "tools/list": () => ({ tools: [{ name: "where", inputSchema: { type: "object" } }] }),
    "tools/call": () => ({ content: [{ type: "text", text: "reached by HTTP" }] }),
};
const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
        if (request.method !== "POST") return response.writeHead(405).end();
        const { id, method, params } = JSON.parse(body);
        say({ method });
        if (id === undefined) return response.writeHead(202).end();
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method]?.(params) ?? {} }));
    });
});
server.listen(0, "127.0.0.1", () => say({ port: server.address().port }));
