/** The bash tool, and what a person runs by `!`. */
import { randomBytes } from "node:crypto";
import {
	type BashOperations,
	createBashToolDefinition,
	DEFAULT_MAX_BYTES,
	type ExtensionAPI,
	formatSize,
} from "@earendil-works/pi-coding-agent";
import { carried, run } from "./command.ts";
import { type Environment, unlessAborted } from "./environment.ts";
import { Capture, Excerpt } from "./output.ts";

/** How often what a command has written is shown while it runs: as often as pi does. */
const UPDATE_MS = 100;

/**
 * Registers bash. Its statuses and results are pi's own; what is longer than a model is shown never
 * reaches pi, which would keep it in a file of the host.
 */
export function registerBash(pi: ExtensionAPI, environment: Environment): void {
	const plain: any = createBashToolDefinition(process.cwd());
	pi.registerTool({
		...plain,
		async execute(id: string, params: any, signal: AbortSignal | undefined, onUpdate: any, ctx: any) {
			const { about } = await unlessAborted(environment.connect(), signal, "Command aborted");
			const capture = new Capture(environment);
			const updates = new Updates(capture, onUpdate);
			const placeholder = `[output ${randomBytes(16).toString("hex")}]`;
			const operations: BashOperations = {
				async exec(command, _cwd, options) {
					const env = carried(options.env ?? process.env);
					const asked = { command, env, timeout: options.timeout, signal: options.signal };
					try {
						return await run(environment, asked, (bytes) => {
							const waits = capture.append(bytes);
							updates.changed();
							return waits;
						});
					} finally {
						await capture.finish();
						updates.stop();
						options.onData(capture.overflows ? Buffer.from(placeholder) : capture.all);
					}
				},
			};
			const commandPrefix = settings(pi).shellCommandPrefix;
			const tool: any = createBashToolDefinition(about.cwd, { operations, commandPrefix });
			const there = ctx && Object.create(ctx, { cwd: { value: about.cwd, enumerable: true } });
			try {
				const result = await tool.execute(id, params, signal, undefined, there);
				return capture.overflows ? replaced(result, placeholder, capture) : result;
			} catch (error) {
				if (!capture.overflows || !(error instanceof Error)) throw error;
				throw new Error(error.message.replace(placeholder, () => shown(capture)));
			}
		},
	});
}

/** What `!`, `!!` and the RPC command `bash` run by: the environment, whatever happens. */
export function userOperations(environment: Environment): BashOperations {
	return {
		async exec(command, _hostCwd, options) {
			const env = carried(options.env ?? process.env);
			const asked = { command, env, timeout: options.timeout, signal: options.signal };
			const excerpt = new Excerpt(environment, options.onData);
			try {
				return await run(environment, asked, (bytes) => excerpt.append(bytes));
			} finally {
				await excerpt.finish();
			}
		},
	};
}

function settings(pi: ExtensionAPI): { shellCommandPrefix?: string } {
	const read = (pi as any).getSettings;
	return typeof read === "function" ? (read.call(pi) ?? {}) : {};
}

/** What the model reads: the end, and where all of it is. */
function shown(capture: Capture): string {
	const { content, truncation, lastLine } = capture.snapshot();
	const { totalLines, outputLines, outputBytes } = truncation;
	const where = `Full output: ${capture.file.description}]`;
	if (truncation.lastLinePartial) {
		const size = formatSize(lastLine);
		return `${content}\n\n[Showing last ${formatSize(outputBytes)} of line ${totalLines} (line is ${size}). ${where}`;
	}
	const lines = `[Showing lines ${totalLines - outputLines + 1}-${totalLines} of ${totalLines}`;
	const limit = truncation.truncatedBy === "lines" ? "" : ` (${formatSize(DEFAULT_MAX_BYTES)} limit)`;
	return `${content}\n\n${lines}${limit}. ${where}`;
}

function replaced(result: any, placeholder: string, capture: Capture): any {
	const { content, truncation } = capture.snapshot();
	const fullOutputPath = capture.file.path;
	const blocks = result.content.map((block: any) =>
		block.type === "text" ? { ...block, text: block.text.replace(placeholder, () => shown(capture)) } : block,
	);
	const structured = result.structuredContent && {
		...result.structuredContent,
		output: content,
		truncated: true,
		...(fullOutputPath ? { full_output_path: fullOutputPath } : {}),
	};
	return {
		...result,
		content: blocks,
		details: { truncation, fullOutputPath },
		...(structured ? { structuredContent: structured } : {}),
	};
}

/** Shows what there is while a command runs, not more often than a person can see. */
class Updates {
	private readonly capture: Capture;
	private readonly onUpdate: ((update: any) => void) | undefined;
	private timer: NodeJS.Timeout | undefined;
	private last = 0;

	constructor(capture: Capture, onUpdate: ((update: any) => void) | undefined) {
		this.capture = capture;
		this.onUpdate = onUpdate;
		onUpdate?.({ content: [], details: undefined });
	}

	changed(): void {
		if (!this.onUpdate || this.timer) return;
		this.timer = setTimeout(() => this.show(), Math.max(0, UPDATE_MS - (Date.now() - this.last)));
	}

	stop(): void {
		if (this.timer) this.show();
	}

	private show(): void {
		clearTimeout(this.timer);
		this.timer = undefined;
		this.last = Date.now();
		const { content, truncation } = this.capture.snapshot();
		const details = truncation.truncated ? { truncation, fullOutputPath: this.capture.file.path } : {};
		this.onUpdate?.({ content: [{ type: "text", text: content }], details });
	}
}
