/**
 * The stdio servers of pi's mcp.json, run in the environment.
 *
 * pi's own support of MCP starts them on the host. It stands back where an extension has the command
 * /mcp; so it is taken here, and made anew from the same part of pi, with another way to start them.
 */
import { existsSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { pathToFileURL } from "node:url";
import * as pi from "@earendil-works/pi-coding-agent";
import { type Client, ConnectionLost, Lines } from "./client.ts";
import { type Environment, resolvePath } from "./environment.ts";

/** How long a server may take to end by itself when its stdin has, and then after SIGTERM. */
const ENDS_MS = 2000;
/** What is kept of a server's stderr, for messages. */
const STDERR_KEPT = 2000;
/** The longest message of a server. */
const LONGEST_MESSAGE = 64 * 1024 * 1024;

interface StdioConfig {
	command: string;
	args?: string[];
	env?: Record<string, string>;
	cwd?: string;
}

interface Entry {
	name: string;
	config: any;
	source: string;
	scope: "global" | "project";
	override?: string;
}

/** Registers it, where this pi has MCP. Servers reached by HTTP stay where they are. */
export function registerMcp(api: pi.ExtensionAPI, environment: Environment): void {
	const create = (pi as any).createMcpExtension;
	if (typeof create !== "function" || process.argv.includes("--no-mcp")) return;
	const isStdio = (entry: Entry) => typeof entry.config.command === "string";
	const has = load(process.cwd(), true).servers;
	const byHttp = has.some((entry) => !isStdio(entry));
	create({
		loadConfig: (ctx: any) => only(load(ctx.cwd, ctx.isProjectTrusted()), isStdio),
		createTransport: (entry: Entry) => new ServerTransport(environment, entry),
	})(byHttp ? renamed(api, "mcp-env") : api);
	if (byHttp) create({ loadConfig: (ctx: any) => only(load(ctx.cwd, ctx.isProjectTrusted()), (entry) => !isStdio(entry)) })(api);
}

/** The same, that calls /mcp something else: pi has one of each name. */
function renamed(api: pi.ExtensionAPI, name: string): pi.ExtensionAPI {
	return new Proxy(api, {
		get(target, property, receiver) {
			if (property !== "registerCommand") return Reflect.get(target, property, receiver);
			return (command: string, options: any) => target.registerCommand(command === "mcp" ? name : command, options);
		},
	});
}

interface Loaded {
	servers: Entry[];
	errors: string[];
	autoEnableCodemode?: boolean;
	projectConfig?: string;
}

function only(loaded: Loaded, wanted: (entry: Entry) => boolean): Loaded {
	return { ...loaded, servers: loaded.servers.filter(wanted) };
}

const OVERRIDES = ["enabled", "exposure", "toolExposure"];

/** The servers of pi's own mcp.json and, if it is trusted, of the project's. */
export function load(hostCwd: string, isTrusted: boolean): Loaded {
	const loaded: Loaded = { servers: [], errors: [] };
	const servers = new Map<string, Entry>();
	read(path.join(pi.getAgentDir(), "mcp.json"), "global", loaded, servers);
	if (isTrusted) {
		loaded.projectConfig = path.join(hostCwd, ".pi", "mcp.json");
		read(loaded.projectConfig, "project", loaded, servers);
	}
	loaded.servers = [...servers.values()];
	return loaded;
}

function read(file: string, scope: Entry["scope"], loaded: Loaded, servers: Map<string, Entry>): void {
	if (!existsSync(file)) return;
	let parsed: any;
	try {
		parsed = JSON.parse(readFileSync(file, "utf8").replace(/^\uFEFF/, ""));
	} catch (error) {
		loaded.errors.push(`${file}: ${error instanceof Error ? error.message : error}`);
		return;
	}
	if (typeof parsed?.autoEnableCodemode === "boolean") loaded.autoEnableCodemode = parsed.autoEnableCodemode;
	for (const [name, given] of Object.entries<any>(parsed?.mcpServers ?? {})) {
		const base = servers.get(name);
		const isOverride = scope === "project" && Object.keys(given ?? {}).every((key) => OVERRIDES.includes(key));
		if (isOverride && base) {
			servers.set(name, { ...base, config: canonical({ ...base.config, ...given }), override: file });
			continue;
		}
		const fault = faultOf(name, given, scope);
		if (fault) loaded.errors.push(`${file}: server "${name}" ${fault}`);
		else servers.set(name, { name, config: canonical(given), source: file, scope });
	}
}

/** Without the older name of an exposure. */
function canonical(config: any): any {
	const now = (exposure: unknown) => (exposure === "codemode-deferred" ? "codemode" : exposure);
	const changed = { ...config };
	if (config.exposure !== undefined) changed.exposure = now(config.exposure);
	if (config.toolExposure) {
		const tools = Object.entries(config.toolExposure).map(([tool, exposure]) => [tool, now(exposure)]);
		changed.toolExposure = Object.fromEntries(tools);
	}
	return changed;
}

function faultOf(name: string, given: any, scope: string): string | undefined {
	const areTexts = (value: unknown) => Object.values(value ?? {}).every((item) => typeof item === "string");
	if (!/^[A-Za-z0-9_-]+$/.test(name)) return "has a name of other characters than letters, digits, _ and -";
	if (given === null || typeof given !== "object") return "is no object";
	if (typeof given.command !== "string" && typeof given.url !== "string") return 'needs "command" or "url"';
	if (typeof given.url === "string" && given.type === "sse") return "is reached by SSE, which is not supported";
	if (scope === "project" && given.url && given.auth) return "has auth, which only the global mcp.json may have";
	if (given.args !== undefined && !(Array.isArray(given.args) && areTexts(given.args))) return "has args that are no texts";
	if (given.env !== undefined && !areTexts(given.env)) return "has env that are no texts";
	return undefined;
}

/** The environment variables of an entry; `${NAME}` in them is the host's, where the entry was written. */
function variables(entry: Entry): Record<string, string> {
	const all = Object.entries((entry.config as StdioConfig).env ?? {}).map(([name, value]) => {
		const where = `MCP server "${entry.name}" env "${name}"`;
		if (value.startsWith("!")) throw new Error(`${where}: a command is not run for a server in the environment`);
		const filled = value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_, variable: string) => {
			const found = process.env[variable];
			if (found === undefined) throw new Error(`${where}: ${variable} is not set`);
			return found;
		});
		return [name, filled];
	});
	return Object.fromEntries(all);
}

type Listener<T> = (value: T) => void;

/** One server in the environment, as pi's MCP client sees it. */
export class ServerTransport {
	private readonly environment: Environment;
	private readonly entry: Entry;
	private readonly messages = new Set<Listener<any>>();
	private readonly errors = new Set<Listener<Error>>();
	private readonly closes = new Set<() => void>();
	private readonly lines = new Lines((line) => this.receive(line));
	/** Ids of the server's questions for roots: the answer is the environment's, not the host's. */
	private readonly rootsAsked = new Set<unknown>();
	/** The first question, until it is answered. */
	private greeting: unknown;
	private isGreeted = false;
	/** Why it has ended before that: pi's client hears of an end only after its first question. */
	private endedEarly: string | undefined;
	private client: Client | undefined;
	private processId: string | undefined;
	private root = "/";
	private hasEnded = false;
	private isClosed = false;
	private ended!: () => void;
	private readonly end = new Promise<void>((resolve) => {
		this.ended = resolve;
	});
	stderr = "";

	constructor(environment: Environment, entry: Entry) {
		this.environment = environment;
		this.entry = entry;
	}

	onMessage(listener: Listener<any>): () => void {
		return added(this.messages, listener);
	}

	onError(listener: Listener<Error>): () => void {
		return added(this.errors, listener);
	}

	onClose(listener: () => void): () => void {
		return added(this.closes, listener);
	}

	async start(): Promise<void> {
		const { client, about } = await this.environment.connect();
		this.client = client;
		this.root = about.cwd;
		const config = this.entry.config as StdioConfig;
		const home = (word: string) => (/^~(\/|$)/.test(word) ? resolvePath(word, about) : word);
		const params = {
			command: home(config.command),
			args: (config.args ?? []).map(home),
			cwd: resolvePath(config.cwd ?? ".", about),
			env: variables(this.entry),
		};
		const take = (stream: string, bytes: Buffer) => {
			if (stream === "stdout") this.lines.push(bytes);
			else this.stderr = (this.stderr + bytes.toString("utf8")).slice(-STDERR_KEPT);
		};
		const onExit = (exit: { exitCode: number | null; signal: string | null }) => {
			this.over(`the server has ended (${exit.signal ?? `code ${exit.exitCode}`})`);
		};
		client.onLoss((loss) => this.over(loss.message));
		this.processId = await client.spawn(params, take, onExit);
		if (this.isClosed) await this.kill();
	}

	async send(message: any): Promise<void> {
		if (!this.client || this.isClosed || this.hasEnded) throw new ConnectionLost("MCP connection closed");
		if (message.method === "initialize") {
			this.greeting = message.id;
			this.isGreeted = true;
			const why = this.endedEarly;
			if (why !== undefined) return void setImmediate(() => this.over(why));
		}
		const isRoots = this.rootsAsked.delete(message.id) && message.result !== undefined;
		const root = { uri: pathToFileURL(this.root).href, name: path.posix.basename(this.root) || "/" };
		const sent = isRoots ? { ...message, result: { roots: [root] } } : message;
		const chunk = Buffer.from(`${JSON.stringify(sent)}\n`, "utf8").toString("base64");
		await this.client.call("process/write", { processId: this.processId, chunk });
	}

	/** As clients of MCP do: its stdin is closed, then it is asked to end, then it is ended. */
	async close(): Promise<void> {
		if (this.isClosed) return;
		this.isClosed = true;
		const { client, processId } = this;
		if (!client || !processId || this.hasEnded || this.endedEarly !== undefined) return this.finish();
		client.call("process/write", { processId, eof: true }).catch(() => {});
		if (!(await this.endsWithin(ENDS_MS))) await this.kill();
		this.finish();
	}

	private async kill(): Promise<void> {
		const { client, processId } = this;
		if (!client || !processId) return;
		await client.kill(processId, ENDS_MS).catch(() => {});
		await this.endsWithin(2 * ENDS_MS);
	}

	private async endsWithin(limitMs: number): Promise<boolean> {
		let timer: NodeJS.Timeout | undefined;
		const late = new Promise<boolean>((resolve) => {
			timer = setTimeout(() => resolve(false), limitMs);
		});
		const inTime = await Promise.race([this.end.then(() => true), late]);
		clearTimeout(timer);
		return inTime;
	}

	private receive(line: string): void {
		if (line.length > LONGEST_MESSAGE) return this.fail("a message of the server is too long");
		let message: any;
		try {
			message = JSON.parse(line);
		} catch {
			const error = new Error(`the server wrote what is no message: ${line.slice(0, 200)}`);
			for (const listener of [...this.errors]) listener(error);
			return;
		}
		if (message?.method === "roots/list" && message.id !== undefined) this.rootsAsked.add(message.id);
		if (message?.id === this.greeting) this.greeting = undefined;
		for (const listener of [...this.messages]) listener(message);
	}

	private over(why: string): void {
		if (!this.isGreeted && !this.isClosed) {
			this.endedEarly ??= why;
			return;
		}
		if (!this.isClosed && !this.hasEnded) this.fail(why);
		this.finish();
	}

	private fail(why: string): void {
		const tail = this.stderr.trim();
		const message = tail ? `${why}\n${tail}` : why;
		for (const listener of [...this.errors]) listener(new Error(message));
		// Whoever waits for the first answer is told why it never comes.
		const error = { jsonrpc: "2.0", id: this.greeting, error: { code: -32000, message } };
		if (this.greeting !== undefined) for (const listener of [...this.messages]) listener(error);
		this.greeting = undefined;
	}

	private finish(): void {
		if (this.hasEnded) return;
		this.hasEnded = true;
		this.ended();
		for (const listener of [...this.closes]) listener();
	}
}

function added<T>(listeners: Set<T>, listener: T): () => void {
	listeners.add(listener);
	return () => listeners.delete(listener);
}
