/** One command line in the environment, with the ends that pi knows: a code, "aborted", "timeout:N". */
import { constants } from "node:os";
import { type Client, ConnectionLost, ExecError, type ExecResult, type Stream } from "./client.ts";
import { type Environment, unlessAborted } from "./environment.ts";

/** How long an answer may take after a kill before the command counts as ended all the same. */
const SETTLES_MS = 2000;
/** How long the end of the connection may take after an answer that tells of it. */
const FOLLOWS_MS = 1000;
/** What `setTimeout` can wait for, in seconds: pi's own bound. */
const LONGEST_TIMEOUT = 2147483.647;

export interface Command {
	command: string;
	/** The environment's; its own if it is absent. */
	cwd?: string;
	/** Laid over the environment's own variables. */
	env?: Record<string, string>;
	/** Seconds. */
	timeout?: number;
	signal?: AbortSignal;
}

/** Takes bytes in which no character is cut short. What it returns is waited for before much more comes. */
export type Take = (bytes: Buffer) => void | Promise<void>;

/**
 * Runs it to its end. Nothing is given to `take` after this has settled.
 *
 * Rejects with "aborted" or "timeout:SECONDS" where that was the end of it. Where the connection is
 * lost while it runs, a note is given to `take` and there is no exit code.
 */
export async function run(environment: Environment, asked: Command, take: Take): Promise<{ exitCode: number | null }> {
	const timeoutMs = milliseconds(asked.timeout);
	const { signal } = asked;
	if (signal?.aborted) throw new Error("aborted");
	const { client, about } = await unlessAborted(environment.connect(), signal, "aborted");
	const cwd = asked.cwd ?? about.cwd;
	let isSettled = false;
	const characters = new Characters();
	const give = (bytes: Buffer) => (isSettled || bytes.length === 0 ? undefined : take(bytes));
	const { command, env } = asked;
	const running = client.exec({ command, cwd, env, timeoutMs }, (stream, bytes) =>
		give(characters.push(stream, bytes)),
	);
	try {
		const result = await endOf(running.done, signal, () => client.kill(running.id));
		give(characters.rest());
		if (signal?.aborted) throw new Error("aborted");
		if (result.timedOut) throw new Error(`timeout:${asked.timeout}`);
		return { exitCode: exitCode(result) };
	} catch (error) {
		give(characters.rest());
		if (signal?.aborted) throw new Error("aborted");
		if (!(await isLoss(error, client))) throw told(error, cwd);
		await give(Buffer.from(`\n[The connection to the environment was lost: ${(error as Error).message}]\n`));
		return { exitCode: null };
	} finally {
		isSettled = true;
	}
}

/** What of the host's variables a command in the environment gets: who called it, and nothing else. */
export function carried(env: NodeJS.ProcessEnv): Record<string, string> {
	const isCarried = ([name, value]: [string, string | undefined]) =>
		value !== undefined && (name.startsWith("PI_") || name === "AI_AGENT");
	return Object.fromEntries(Object.entries(env).filter(isCarried)) as Record<string, string>;
}

function milliseconds(timeout: number | undefined): number | undefined {
	if (timeout === undefined) return undefined;
	if (!Number.isFinite(timeout) || timeout <= 0) throw new Error("Invalid timeout: must be a finite number of seconds");
	if (timeout > LONGEST_TIMEOUT) throw new Error(`Invalid timeout: maximum is ${LONGEST_TIMEOUT} seconds`);
	return Math.max(1, Math.ceil(timeout * 1000));
}

/** The answer. After an abort it is waited for only so long. */
async function endOf(done: Promise<ExecResult>, signal: AbortSignal | undefined, kill: () => Promise<void>): Promise<ExecResult> {
	if (!signal) return done;
	let timer: NodeJS.Timeout | undefined;
	const silence = new Promise<never>((_, reject) => {
		const abort = () => {
			kill().catch(() => {});
			timer = setTimeout(() => reject(new Error("aborted")), SETTLES_MS);
		};
		if (signal.aborted) abort();
		else signal.addEventListener("abort", abort, { once: true });
		const over = () => {
			signal.removeEventListener("abort", abort);
			clearTimeout(timer);
		};
		done.then(over, over);
	});
	return Promise.race([done, silence]);
}

/** As a shell would tell it: 128 and the signal's number where a signal was the end. */
function exitCode(result: ExecResult): number | null {
	if (result.exitCode !== null || !result.signal) return result.exitCode;
	const signals = constants.signals as Record<string, number>;
	return 128 + (signals[result.signal] ?? 0);
}

/**
 * Whether the connection is what has failed. A server that stops, and one that somebody has taken over,
 * still answer; then the end of the connection follows.
 */
async function isLoss(error: unknown, client: Client): Promise<boolean> {
	if (error instanceof ConnectionLost) return true;
	if (!(error instanceof ExecError) || /^E[A-Z0-9]+$|^-32602$|_NO_SHELL$|_LIMIT$/.test(error.code)) return false;
	if (error.code === "CELL_TA_EXEC_STALE_EPOCH") return true;
	return new Promise((resolve) => {
		const timer = setTimeout(() => resolve(false), FOLLOWS_MS);
		client.onLoss(() => {
			clearTimeout(timer);
			resolve(true);
		});
	});
}

function told(error: unknown, cwd: string): unknown {
	if (error instanceof ExecError && /^E(NOENT|NOTDIR|ACCES)$/.test(error.code) && error.message.includes(cwd)) {
		return new Error(`Working directory does not exist: ${cwd}\nCannot execute bash commands. (${error.message})`);
	}
	return error;
}

/** Two streams of UTF-8 made one, in which a character that came in pieces is whole. */
export class Characters {
	private readonly held: Record<Stream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };

	/** What can be passed on now. */
	push(stream: Stream, bytes: Buffer): Buffer {
		const held = this.held[stream];
		const all = held.length > 0 ? Buffer.concat([held, bytes]) : bytes;
		const whole = all.length - unfinished(all);
		this.held[stream] = all.subarray(whole);
		return all.subarray(0, whole);
	}

	/** What is left at the end, whole or not. */
	rest(): Buffer {
		const rest = Buffer.concat([this.held.stdout, this.held.stderr]);
		this.held.stdout = this.held.stderr = Buffer.alloc(0);
		return rest;
	}
}

/** How many bytes at the end begin a character that may still be finished. */
function unfinished(bytes: Buffer): number {
	for (let back = 1; back <= 3 && back <= bytes.length; back++) {
		const byte = bytes[bytes.length - back];
		if ((byte & 0xc0) === 0x80) continue;
		const length = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
		return byte < 0xf5 && length > back ? back : 0;
	}
	return 0;
}
