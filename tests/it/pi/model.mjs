// A model that does what it was told beforehand, by the API that most speak (chat completions,
// streamed). Reads {steps: [{calls: [{name, arguments}]}], final} on stdin; prints the port it listens
// on, then each request as a line of JSON. Step k is played when k answers of its own follow the last
// words of the user; then `final`. It ends with its stdin's reader: when its stdout is closed.
import { readFileSync } from "node:fs";
import http from "node:http";

const script = JSON.parse(readFileSync(0, "utf8"));
process.stdout.on("error", () => process.exit());
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
let answers = 0;

function play(request, response) {
    const messages = request.messages;
    const user = messages.findLastIndex((message) => message.role === "user");
    const step = script.steps[messages.slice(user).filter(({ role }) => role === "assistant").length];
    const id = `answer-${++answers}`;
    response.writeHead(200, { "content-type": "text/event-stream" });
    const event = (rest) =>
        response.write(`data: ${JSON.stringify({ id, object: "chat.completion.chunk", created: 1, model: "mock", ...rest })}\n\n`);
    const delta = (delta, finish_reason = null) => event({ choices: [{ index: 0, delta, finish_reason }] });
    delta({ role: "assistant", content: step ? "" : script.final });
    step?.calls.forEach((call, index) => {
        const text = JSON.stringify(call.arguments);
        const head = { index, id: `${id}-${index}`, type: "function" };
        delta({ tool_calls: [{ ...head, function: { name: call.name, arguments: "" } }] });
        for (const part of [text.slice(0, text.length / 2), text.slice(text.length / 2)]) {
            delta({ tool_calls: [{ index, function: { arguments: part } }] });
        }
    });
    delta({}, step ? "tool_calls" : "stop");
    event({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } });
    response.end("data: [DONE]\n\n");
}

const server = http.createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (data) => (body += data));
    request.on("end", () => {
        if (!request.url.endsWith("/chat/completions")) return response.writeHead(404).end("{}");
        const asked = JSON.parse(body);
        say(asked);
        play(asked, response);
    });
});
server.listen(0, "127.0.0.1", () => say({ port: server.address().port }));
