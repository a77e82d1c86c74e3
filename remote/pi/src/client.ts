/**
 * ExecRpc over the stdin and stdout of a child: one JSON message a line. The child is `ta connect`,
 * which sees to the connection and its pings; when it ends, everything that waits is told so.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";

/** Bytes of output that may be on their way from one process; what it writes beyond them waits there. */
const WINDOW = 1024 * 1024;
/** Bytes that are acknowledged together. The window never runs dry for it: three quarters are left. */
const ACKNOWLEDGED_AT_ONCE = WINDOW / 4;
/** What is kept of the child's stderr, for messages. */
const STDERR_KEPT = 4096;

/** The environment has answered, by an error. `code` is an errno's name or one of the protocol's. */
export class ExecError extends Error {
	readonly code: string;
	readonly data: Record<string, unknown>;

	constructor(message: string, code: string, data: Record<string, unknown> = {}) {
		super(message);
		this.name = "ExecError";
		this.code = code;
		this.data = data;
	}
}

/** There is no connection: it could not be made, or it has ended before the answer came. */
export class ConnectionLost extends Error {
	constructor(message: string) {
		super(message);
		this.name = "ConnectionLost";
	}
}

export type Stream = "stdout" | "stderr";

/** Takes output. What it returns is waited for before more than a window of it is sent. */
export type OnOutput = (stream: Stream, bytes: Buffer) => void | Promise<void>;

export interface ExecParams {
	command: string;
	cwd?: string;
	env?: Record<string, string | null>;
	timeoutMs?: number;
}

export interface ExecResult {
	exitCode: number | null;
	signal: string | null;
	timedOut: boolean;
	killed: boolean;
	outputHeld: boolean;
}

export interface SpawnParams {
	command: string;
	args?: string[];
	cwd?: string;
	env?: Record<string, string | null>;
}

export interface ProcessExit {
	exitCode: number | null;
	signal: string | null;
}

/** A command that runs. Its id is free again when `done` has settled. */
export interface Running {
	id: string;
	done: Promise<ExecResult>;
}

interface Pending {
	resolve(result: unknown): void;
	reject(error: Error): void;
}

interface Process {
	onOutput: OnOutput;
	onExit?: (exit: ProcessExit) => void;
	unacknowledged: number;
}

export class Client {
	private readonly child: ChildProcessWithoutNullStreams;
	private readonly pending = new Map<number, Pending>();
	private readonly processes = new Map<string, Process>();
	private readonly lines = new Lines((line) => this.receive(line));
	private stderr = "";
	private lastId = 0;
	private lastProcess = 0;
	private loss: ConnectionLost | undefined;
	private readonly lossListeners = new Set<(loss: ConnectionLost) => void>();

	/** Starts the child. That it cannot be started is told to the first call. */
	constructor(program: string, args: string[], env: NodeJS.ProcessEnv = process.env) {
		// (A group of its own: a ^C or ^Z at pi's terminal is not meant for the connection.)
		this.child = spawn(program, args, { env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
		this.child.on("error", (error) => this.lose(`cannot start ${program}: ${error.message}`));
		this.child.stdin.on("error", () => {});
		this.child.stdout.on("data", (chunk: Buffer) => this.lines.push(chunk));
		this.child.stdout.on("error", () => {});
		this.child.stderr.on("data", (chunk: Buffer) => {
			this.stderr = (this.stderr + chunk.toString("utf8")).slice(-STDERR_KEPT);
		});
		this.child.stderr.on("error", () => {});
		this.child.once("close", (code, signal) => {
			const why = this.stderr.trim().replace(/^ta: /, "");
			this.lose(why || `${program} has ended (${signal ?? `code ${code}`})`);
		});
	}

	/** Why there is no connection any more. */
	get lost(): ConnectionLost | undefined {
		return this.loss;
	}

	/** Calls back once, when the connection has ended. */
	onLoss(listener: (loss: ConnectionLost) => void): () => void {
		if (this.loss) {
			listener(this.loss);
			return () => {};
		}
		this.lossListeners.add(listener);
		return () => this.lossListeners.delete(listener);
	}

	/** Asks, and waits for the answer or the end of the connection. */
	call<Result>(method: string, params: object): Promise<Result> {
		if (this.loss) return Promise.reject(this.loss);
		const id = ++this.lastId;
		return new Promise<Result>((resolve, reject) => {
			this.pending.set(id, { resolve: resolve as (result: unknown) => void, reject });
			this.send({ jsonrpc: "2.0", id, method, params });
		});
	}

	/** Runs a command line in the environment's shell; all its output comes before `done` settles. */
	exec(params: ExecParams, onOutput: OnOutput): Running {
		const id = this.register({ onOutput, unacknowledged: 0 });
		const done = this.call<ExecResult>("process/exec", { ...params, processId: id, window: WINDOW });
		return { id, done: done.finally(() => this.processes.delete(id)) };
	}

	/** Starts a program that lives on. `onExit` comes after all its output, unless the connection is lost. */
	async spawn(params: SpawnParams, onOutput: OnOutput, onExit: (exit: ProcessExit) => void): Promise<string> {
		const id = this.register({ onOutput, onExit, unacknowledged: 0 });
		try {
			await this.call("process/spawn", { ...params, processId: id, window: WINDOW });
			return id;
		} catch (error) {
			this.processes.delete(id);
			throw error;
		}
	}

	/** Ends a process and all that came of it; with a grace SIGTERM comes first. */
	async kill(processId: string, graceMs?: number): Promise<void> {
		const grace = graceMs === undefined ? {} : { signal: "SIGTERM", graceMs };
		await this.call("process/kill", { processId, ...grace });
	}

	/** Ends the connection, and with it all that was started through it. */
	close(why = "the connection was closed"): void {
		this.lose(why);
		this.child.stdin.end();
		// Answers that are due would be waited for; nobody is left to read them.
		this.child.kill("SIGTERM");
	}

	private register(process: Process): string {
		const id = `pi-${++this.lastProcess}`;
		this.processes.set(id, process);
		return id;
	}

	private send(message: object): void {
		this.child.stdin.write(`${JSON.stringify(message)}\n`);
	}

	private receive(line: string): void {
		let message: any;
		try {
			message = JSON.parse(line);
		} catch {
			return;
		}
		if (typeof message.method === "string") {
			this.notified(message.method, message.params ?? {});
			return;
		}
		const pending = this.pending.get(message.id);
		if (!pending) return;
		this.pending.delete(message.id);
		if (message.error) pending.reject(refusal(message.error));
		else pending.resolve(message.result);
	}

	private notified(method: string, params: any): void {
		const process = this.processes.get(params.processId);
		if (!process) return;
		if (method === "process/output") this.output(params.processId, process, "stdout", params.chunk);
		else if (method === "process/stderr") this.output(params.processId, process, "stderr", params.chunk);
		else if (method === "process/exit") {
			this.processes.delete(params.processId);
			process.onExit?.({ exitCode: params.exitCode, signal: params.signal });
		}
	}

	private output(processId: string, process: Process, stream: Stream, chunk: string): void {
		const bytes = Buffer.from(chunk, "base64");
		const taken = () => this.acknowledge(processId, process, bytes.length);
		const waits = process.onOutput(stream, bytes);
		if (waits) waits.then(taken, taken);
		else taken();
	}

	private acknowledge(processId: string, process: Process, bytes: number): void {
		process.unacknowledged += bytes;
		if (process.unacknowledged < ACKNOWLEDGED_AT_ONCE || this.loss) return;
		this.send({
			jsonrpc: "2.0",
			method: "process/ack",
			params: { processId, bytes: process.unacknowledged },
		});
		process.unacknowledged = 0;
	}

	private lose(why: string): void {
		if (this.loss) return;
		this.loss = new ConnectionLost(why);
		for (const pending of this.pending.values()) pending.reject(this.loss);
		this.pending.clear();
		this.processes.clear();
		for (const listener of this.lossListeners) listener(this.loss);
		this.lossListeners.clear();
	}
}

function refusal(error: any): ExecError {
	const data = error.data ?? {};
	const code = typeof data.code === "string" ? data.code : String(error.code);
	return new ExecError(String(error.message ?? "refused"), code, data);
}

/** Lines of a byte stream. A long one is put together once, when its end has come. */
export class Lines {
	private parts: Buffer[] = [];
	private readonly take: (line: string) => void;

	constructor(take: (line: string) => void) {
		this.take = take;
	}

	push(chunk: Buffer): void {
		let start = 0;
		for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
			this.parts.push(chunk.subarray(start, end));
			start = end + 1;
			const line = this.parts.length === 1 ? this.parts[0] : Buffer.concat(this.parts);
			this.parts = [];
			const text = line.toString("utf8").replace(/\r$/, "");
			if (text.trim()) this.take(text);
		}
		if (start < chunk.length) this.parts.push(chunk.subarray(start));
	}
}
