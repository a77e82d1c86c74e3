/** What a command has written: its end for the model, all of it in a file of the environment where that is much. */
import { randomBytes } from "node:crypto";
import * as path from "node:path";
import { DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES, truncateTail } from "@earendil-works/pi-coding-agent";
import type { Connection, Environment } from "./environment.ts";

/** Whether this pi counts what follows the last end of a line as one more, though there is nothing. */
const COUNTS_EMPTY_END = truncateTail("x\n").totalLines === 2;
/** How long the file's last writes may take when the command is over. */
const WRITES_END_MS = 5000;

/** A new file in the environment's directory for temporary ones, that its `read` can open. */
export class OutputFile {
	private readonly environment: Environment;
	private connection: Promise<Connection> | undefined;
	private writes: Promise<void> = Promise.resolve();
	private waiting: Buffer[] = [];
	private failure: string | undefined;
	private name: string | undefined;

	constructor(environment: Environment) {
		this.environment = environment;
	}

	/** Its path, or why there is none. */
	get description(): string {
		return this.failure ? `none (${this.failure})` : (this.name ?? "none");
	}

	get path(): string | undefined {
		return this.failure ? undefined : this.name;
	}

	/** Settles when the bytes are there; a failure is told by `description`. */
	append(bytes: Buffer): Promise<void> {
		this.waiting.push(bytes);
		this.writes = this.writes
			.then(() => this.write())
			.catch((error) => {
				this.failure ??= error instanceof Error ? error.message : String(error);
			});
		return this.writes;
	}

	/** Writes all that has come while the last write was on its way. */
	private async write(): Promise<void> {
		const bytes = Buffer.concat(this.waiting);
		this.waiting = [];
		if (bytes.length === 0 || this.failure) return;
		// A connection that was lost is not made anew for this: the file may be gone with the machine.
		this.connection ??= this.environment.connect();
		const { client, about } = await this.connection;
		const isNew = this.name === undefined;
		this.name ??= path.posix.join(about.tmpdir, `pi-bash-${randomBytes(8).toString("hex")}.log`);
		const file = { path: this.name, dataBase64: bytes.toString("base64") };
		const how = isNew ? { ifVersion: "", mode: 0o600 } : { append: true };
		await client.call("fs/writeFile", { ...file, ...how });
	}

	/** Waits for what is on its way. */
	async finish(): Promise<void> {
		let timer: NodeJS.Timeout | undefined;
		const late = new Promise<void>((resolve) => {
			timer = setTimeout(() => {
				this.failure ??= "the environment does not answer";
				resolve();
			}, WRITES_END_MS);
		});
		await Promise.race([this.writes, late]);
		clearTimeout(timer);
	}
}

export interface Snapshot {
	content: string;
	truncation: ReturnType<typeof truncateTail>;
	/** Bytes of the last line. */
	lastLine: number;
}

/** All output while it is little; else its end, its measures, and a file that has all of it. */
export class Capture {
	readonly file: OutputFile;
	private readonly decoder = new TextDecoder();
	private chunks: Buffer[] = [];
	private tail = "";
	private rawBytes = 0;
	private bytes = 0;
	private completeLines = 0;
	private lastLine = 0;
	private isPartial = false;

	constructor(environment: Environment) {
		this.file = new OutputFile(environment);
	}

	/** More than a model is shown. */
	get overflows(): boolean {
		return Math.max(this.rawBytes, this.bytes) > DEFAULT_MAX_BYTES || this.lines > DEFAULT_MAX_LINES;
	}

	/** All of it, where it does not overflow. */
	get all(): Buffer {
		return Buffer.concat(this.chunks);
	}

	/** Lines, the last one too if it has no end. */
	get written(): number {
		return this.completeLines + (this.lastLine > 0 ? 1 : 0);
	}

	append(bytes: Buffer): void | Promise<void> {
		const overflowed = this.overflows;
		this.rawBytes += bytes.length;
		this.decoded(this.decoder.decode(bytes, { stream: true }));
		if (overflowed) return this.file.append(bytes);
		this.chunks.push(bytes);
		if (this.overflows) return this.spill();
	}

	/** The end has come; waits for the file. */
	async finish(): Promise<void> {
		const overflowed = this.overflows;
		this.decoded(this.decoder.decode());
		if (this.overflows && !overflowed) void this.spill();
		if (this.overflows) await this.file.finish();
	}

	snapshot(): Snapshot {
		let text = this.tail;
		if (this.isPartial) {
			// The first line has lost its beginning, unless it is all that there is.
			const end = text.indexOf("\n");
			text = (end >= 0 ? text.slice(end + 1) : "") || text;
		}
		const cut = truncateTail(text);
		const truncated = this.overflows;
		const by = truncated ? (cut.truncatedBy ?? (this.bytes > DEFAULT_MAX_BYTES ? "bytes" : "lines")) : null;
		const truncation = { ...cut, truncated, truncatedBy: by, totalLines: this.lines, totalBytes: this.bytes };
		return { content: cut.content, truncation, lastLine: this.lastLine };
	}

	private get lines(): number {
		return this.completeLines + (this.lastLine > 0 || COUNTS_EMPTY_END ? 1 : 0);
	}

	private spill(): Promise<void> {
		const all = Buffer.concat(this.chunks);
		this.chunks = [];
		return this.file.append(all);
	}

	private decoded(text: string): void {
		if (text === "") return;
		this.bytes += Buffer.byteLength(text);
		const end = text.lastIndexOf("\n");
		if (end < 0) this.lastLine += Buffer.byteLength(text);
		else {
			for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) this.completeLines++;
			this.lastLine = Buffer.byteLength(text.slice(end + 1));
		}
		this.tail += text;
		// (A UTF-16 unit is a byte or more, so what is left holds more than is shown.)
		if (this.tail.length > 4 * DEFAULT_MAX_BYTES) {
			let from = this.tail.length - 2 * DEFAULT_MAX_BYTES;
			if (/[\uDC00-\uDFFF]/.test(this.tail[from])) from++;
			this.isPartial = this.tail[from - 1] !== "\n";
			this.tail = this.tail.slice(from);
		}
	}
}

/** Of a long output, so much is passed on as it comes, and so much at the end. */
const FIRST = { lines: 1600, bytes: 40_000 };
const LAST = { maxLines: 380, maxBytes: 9000 };

/**
 * Passes output on as it comes, and so much of it at most that pi keeps no file of its own: that
 * would be the host's. Of more, the beginning and the end are passed on; all is in the environment's.
 */
export class Excerpt {
	private readonly capture: Capture;
	private readonly pass: (bytes: Buffer) => void;
	private lines = 0;
	private bytes = 0;
	/** What is held back, as long as it may still all be passed on. */
	private held: Buffer[] | undefined;

	constructor(environment: Environment, pass: (bytes: Buffer) => void) {
		this.capture = new Capture(environment);
		this.pass = pass;
	}

	append(bytes: Buffer): void | Promise<void> {
		const taken = this.held ? 0 : this.passFirst(bytes);
		if (taken < bytes.length) {
			this.held ??= [];
			this.held.push(bytes.subarray(taken));
		}
		const waits = this.capture.append(bytes);
		if (this.capture.overflows) this.held = [];
		return waits;
	}

	async finish(): Promise<void> {
		await this.capture.finish();
		if (!this.capture.overflows) {
			if (this.held) this.pass(Buffer.concat(this.held));
			return;
		}
		const end = truncateTail(this.capture.snapshot().content, LAST).content;
		const note = `[... ${this.capture.written} lines in all. Full output: ${this.capture.file.description} ...]`;
		this.pass(Buffer.from(`\n${note}\n${end}`));
	}

	/** Passes on what is in the first part still: whole lines, where it is not all. Answers how much. */
	private passFirst(bytes: Buffer): number {
		let end = 0;
		let lines = this.lines;
		for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, end)) {
			if (lines === FIRST.lines || this.bytes + at >= FIRST.bytes) break;
			lines++;
			end = at + 1;
		}
		const isAll = bytes.indexOf(10, end) < 0 && this.bytes + bytes.length <= FIRST.bytes;
		if (isAll) end = bytes.length;
		this.lines = lines;
		this.bytes += end;
		if (end > 0) this.pass(bytes.subarray(0, end));
		return end;
	}
}
