/** The environment that pi's tools work in: how it is reached, what it says of itself, and its paths. */
import * as path from "node:path";
import { Client, ConnectionLost, ExecError } from "./client.ts";

/** How long the environment may take until it has said what it is. */
const HELLO_MS = 30_000;

/** Where the environment is: what stands behind `ta connect`, and the directory to work in. */
export interface Place {
	options: string[];
	cwd?: string;
}

export interface About {
	cwd: string;
	home: string;
	tmpdir: string;
	hostname: string;
}

export interface Connection {
	client: Client;
	about: About;
}

export class Environment {
	private readonly place: () => Place;
	private readonly epoch: number;
	private current: Connection | undefined;
	private opening: Promise<Connection> | undefined;
	private newest: Client | undefined;

	/**
	 * `place` is asked when a connection is made. `epoch` is this host's, for all its connections: a
	 * later host takes over from it.
	 */
	constructor(place: () => Place, epoch: number) {
		this.place = place;
		this.epoch = epoch;
	}

	/** The connection; a new one, by a new child, where there is none or the last one has ended. */
	async connect(): Promise<Connection> {
		if (this.current && !this.current.client.lost) return this.current;
		this.opening ??= this.open().finally(() => {
			this.opening = undefined;
		});
		return this.opening;
	}

	async call<Result>(method: string, params: object): Promise<Result> {
		const { client } = await this.connect();
		return client.call<Result>(method, params);
	}

	/** Ends the connection, and with it all that runs there. The next call would make a new one. */
	close(): void {
		this.newest?.close();
	}

	private async open(): Promise<Connection> {
		let place: Place;
		try {
			place = this.place();
		} catch (error) {
			throw unreachable(error);
		}
		const program = process.env.TA_BIN || "ta";
		const client = new Client(program, ["connect", ...place.options, "--epoch", String(this.epoch)]);
		this.newest = client;
		const timer = setTimeout(() => client.close("it does not answer"), HELLO_MS);
		try {
			const hello = { clientName: "pi" };
			const about = await client.call<About>("initialize", hello);
			if (place.cwd !== undefined) about.cwd = resolvePath(place.cwd, about);
			this.current = { client, about };
			return this.current;
		} catch (error) {
			client.close();
			throw unreachable(error);
		} finally {
			clearTimeout(timer);
		}
	}
}

function unreachable(error: unknown): ConnectionLost {
	const why = error instanceof Error ? error.message : String(error);
	return new ConnectionLost(`the environment cannot be reached: ${why}`);
}

/** Where the environment is by pi's flags, else by TA_EXEC_URL. This machine is never meant. */
export function placeOf(flag: (name: string) => unknown): Place {
	const given = (name: string) => {
		const value = flag(name);
		return typeof value === "string" && value !== "" ? value : undefined;
	};
	const [url, via, ssh] = [given("ta-exec"), given("ta-via"), given("ta-ssh")];
	const tokenFile = given("ta-token-file");
	if (!url && !via && !ssh && !process.env.TA_EXEC_URL) {
		throw new Error("none is named (--ta-exec URL, --ta-via COMMAND, --ta-ssh HOST or TA_EXEC_URL says which)");
	}
	const options: string[] = [];
	if (url) options.push("--exec", url);
	if (via) options.push("--via", via);
	if (ssh) options.push("--ssh", ssh);
	if (tokenFile) options.push("--token-file", tokenFile);
	return { options, cwd: given("ta-cwd") };
}

const UNICODE_SPACES = /[\u00A0\u2000-\u200A\u202F\u205F\u3000]/g;

/** A path as a model writes it, made absolute: `@`, `~`, `file://` and all that is relative are the environment's. */
export function resolvePath(written: string, about: { cwd: string; home: string }): string {
	let given = written.replace(UNICODE_SPACES, " ");
	if (given.startsWith("@")) given = given.slice(1);
	if (given === "~") given = about.home;
	else if (given.startsWith("~/")) given = path.posix.join(about.home, given.slice(2));
	else if (given.startsWith("file://")) given = decodeURIComponent(new URL(given).pathname);
	return path.posix.resolve(about.cwd, given);
}

/** The error as Node words those of its own file functions: the code first, and as a property. */
export function nodeError(error: unknown): unknown {
	if (!(error instanceof ExecError) || !/^E[A-Z0-9]+$/.test(error.code)) return error;
	return new ExecError(`${error.code}: ${error.message}`, error.code, error.data);
}

/** Waits for `work`, or for the abort if that comes first. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined, message: string): Promise<T> {
	if (!signal) return work;
	return new Promise<T>((resolve, reject) => {
		const abort = () => reject(new Error(message));
		if (signal.aborted) abort();
		signal.addEventListener("abort", abort, { once: true });
		work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
	});
}
