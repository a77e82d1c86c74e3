/**
 * pi works in another environment: its tools, `!` commands and stdio MCP servers run there, through
 * `ta connect`, and the model is told of that place and not of this one. If it cannot be reached,
 * everything fails and says so; nothing is ever done on this machine instead.
 */
import * as host from "@earendil-works/pi-coding-agent";
import { registerBash, userOperations } from "./bash.ts";
import { Environment, placeOf } from "./environment.ts";
import { registerFiles } from "./files.ts";
import { registerMcp } from "./mcp.ts";
import { nowhere, surroundings, type Told, tell } from "./prompt.ts";
import { registerFind, registerGrep } from "./search.ts";

/** This host's number: one that starts later takes over. */
const EPOCH = Date.now();

const FLAGS = {
	"ta-exec": "the server of the environment, ws://HOST:PORT/exec (else TA_EXEC_URL; its token is TA_EXEC_TOKEN)",
	"ta-via": "reach the environment by a command, such as 'docker exec -i NAME /ta exec-server --stdio'",
	"ta-ssh": "reach a host of ~/.ssh/config by ssh; a server is placed there first",
	"ta-token-file": "file that holds the server's token",
	"ta-cwd": "the directory to work in there (else the server's own)",
};

export default function (pi: host.ExtensionAPI): void {
	for (const [name, description] of Object.entries(FLAGS)) pi.registerFlag(name, { description, type: "string" });
	const environment = new Environment(() => placeOf((name) => pi.getFlag(name)), EPOCH);
	registerFiles(pi, environment);
	registerBash(pi, environment);
	registerFind(pi, environment);
	registerGrep(pi, environment);
	const operations = userOperations(environment);
	pi.on("user_bash", () => ({ operations }));
	routeUnasked(operations);

	/** Read once, as pi reads its own; /reload reads it again. While it is read, pi goes on starting. */
	let told: Promise<Told> | undefined;
	const read = () => {
		const reading = surroundings(environment);
		reading.catch(() => {
			if (told === reading) told = undefined;
		});
		return (told = reading);
	};
	pi.on("session_start", (_event, ctx) => {
		read().then(
			({ cwd }) => ctx.hasUI && ctx.ui.setStatus("ta", `ta: ${cwd}`),
			(error) => report(ctx, error.message),
		);
	});
	pi.on("before_agent_start", async (event) => {
		const reading = told ?? read();
		return tell(event, await reading.catch((error) => nowhere(error.message)));
	});
	registerMcp(pi, environment);
	pi.on("session_shutdown", () => environment.close());
}

function report(ctx: host.ExtensionContext, message: string): void {
	if (ctx.hasUI) ctx.ui.notify(`ta: ${message}`, "error");
	else console.error(`ta: ${message}`);
}

/**
 * Before pi 0.83 the RPC command `bash` asked no extension, and ran on this machine. What is run with
 * no operations given is given ours there.
 */
function routeUnasked(operations: host.BashOperations): void {
	const [major, minor] = host.VERSION.split(".").map(Number);
	if (major > 0 || minor >= 83) return;
	const session = host.AgentSession.prototype as any;
	const execute = session.executeBash;
	session.executeBash = function (command: string, onChunk: unknown, options: any) {
		return execute.call(this, command, onChunk, { ...options, operations: options?.operations ?? operations });
	};
}
