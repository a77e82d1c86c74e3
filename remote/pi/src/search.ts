/** find and grep. Both search where the files are, by the environment itself. */
import * as path from "node:path";
import {
	createFindToolDefinition,
	createGrepToolDefinition,
	DEFAULT_MAX_BYTES,
	type ExtensionAPI,
	formatSize,
	truncateHead,
	truncateLine,
} from "@earendil-works/pi-coding-agent";
import { type Client, ExecError } from "./client.ts";
import { type Environment, nodeError, unlessAborted } from "./environment.ts";
import { registerFileTool, target } from "./tool.ts";

/** Results, where a call does not say how many. */
const FINDS = 1000;
const MATCHES = 100;
const MOST = 1_000_000;
/** The most lines around a match that the environment tells. */
const MOST_CONTEXT = 1000;
/** Characters of a line that a model is shown: pi's number. */
const LINE_LENGTH = 500;

let lastSearch = 0;

function bounded(limit: number | undefined, usual: number): number {
	return Math.min(MOST, Math.max(1, Math.floor(limit ?? usual)));
}

/** Asks for a search, and ends it with the signal. */
async function search<Result>(client: Client, method: string, params: object, signal?: AbortSignal): Promise<Result> {
	const processId = `pi-search-${++lastSearch}`;
	const stop = () => void client.kill(processId).catch(() => {});
	signal?.addEventListener("abort", stop, { once: true });
	const answer = client.call<Result>(method, { ...params, processId });
	return answer.finally(() => signal?.removeEventListener("abort", stop));
}

export function registerFind(pi: ExtensionAPI, environment: Environment): void {
	registerFileTool(pi, environment, {
		create: createFindToolDefinition,
		named: (root) => root,
		operations: (root, params, signal) => {
			let found: Array<{ path: unknown; type: string }>;
			return {
				exists: async () => {
					const { client } = await environment.connect();
					// One more than is shown tells that there are more.
					const limit = bounded(params.limit, FINDS) + 1;
					const asked = { path: root, pattern: params.pattern, limit, ignore: ["**/node_modules/**", "**/.git/**"] };
					try {
						({ entries: found } = await search<any>(client, "fs/find", asked, signal));
						return true;
					} catch (error) {
						if (error instanceof ExecError && error.code === "ENOENT") return false;
						throw nodeError(error);
					}
				},
				glob: async (_pattern: string, cwd: string, options: { limit: number }) =>
					found.slice(0, options.limit).map((entry) => {
						return `${cwd}/${text(entry.path)}${entry.type === "directory" ? "/" : ""}`;
					}),
			};
		},
	});
}

interface Match {
	path: unknown;
	line: number;
	text: string;
	before?: string[];
	after?: string[];
}

interface GrepParams {
	pattern: string;
	path?: string;
	glob?: string;
	ignoreCase?: boolean;
	literal?: boolean;
	context?: number;
	limit?: number;
}

export function registerGrep(pi: ExtensionAPI, environment: Environment): void {
	const plain: any = createGrepToolDefinition(process.cwd());
	pi.registerTool({
		...plain,
		async execute(_id: string, params: GrepParams, signal: AbortSignal | undefined) {
			const { client, about } = await unlessAborted(environment.connect(), signal, "Operation aborted");
			const root = target(params, about);
			const limit = bounded(params.limit, MATCHES);
			const context = params.context && params.context > 0 ? Math.min(Math.floor(params.context), MOST_CONTEXT) : 0;
			const { pattern, literal, ignoreCase } = params;
			// ripgrep knows no name that begins with "./".
			const glob = params.glob?.replace(/^(!?)(?:\.\/)+/, "$1");
			const asked = { path: root, pattern, literal, ignoreCase, glob, context, limit };
			const answer = search<{ matches: Match[]; truncated: boolean }>(client, "fs/grep", asked, signal);
			const { matches, truncated } = await unlessAborted(answer, signal, "Operation aborted").catch((error) => {
				if (error instanceof ExecError && error.code === "ENOENT") throw new Error(`Path not found: ${root}`);
				throw nodeError(error);
			});
			return told(matches, path.posix.basename(root), truncated ? limit : undefined);
		},
	});
}

/** What the model reads of the matches; `limit` if there are more than those. */
function told(matches: Match[], root: string, limit: number | undefined) {
	if (matches.length === 0) return { content: [{ type: "text", text: "No matches found" }], details: undefined };
	let isCut = false;
	const lines = linesOf(matches).map(({ name, line, text, matches }) => {
		const shown = truncateLine(text, LINE_LENGTH);
		isCut ||= shown.wasTruncated;
		return matches ? `${name || root}:${line}: ${shown.text}` : `${name || root}-${line}- ${shown.text}`;
	});
	const truncation = truncateHead(lines.join("\n"), { maxLines: Number.MAX_SAFE_INTEGER });
	const details: Record<string, unknown> = {};
	const notices: string[] = [];
	if (limit !== undefined) {
		notices.push(`${limit} matches limit reached. Use limit=${limit * 2} for more, or refine pattern`);
		details.matchLimitReached = limit;
	}
	if (truncation.truncated) {
		notices.push(`${formatSize(DEFAULT_MAX_BYTES)} limit reached`);
		details.truncation = truncation;
	}
	if (isCut) {
		notices.push(`Some lines truncated to ${LINE_LENGTH} chars. Use read tool to see full lines`);
		details.linesTruncated = true;
	}
	const notice = notices.length > 0 ? `\n\n[${notices.join(". ")}]` : "";
	return {
		content: [{ type: "text", text: truncation.content + notice }],
		details: Object.keys(details).length > 0 ? details : undefined,
	};
}

interface Line {
	name: string;
	line: number;
	text: string;
	matches: boolean;
}

/** Matches and the lines around them, each once and in order: what is around one match may be another. */
export function linesOf(matches: Match[]): Line[] {
	const files = new Map<string, Map<number, Line>>();
	for (const match of matches) {
		const name = text(match.path);
		const file = files.get(name) ?? new Map<number, Line>();
		files.set(name, file);
		const before = match.before ?? [];
		[...before, match.text, ...(match.after ?? [])].forEach((content, index) => {
			const line = match.line - before.length + index;
			const matches = line === match.line || (file.get(line)?.matches ?? false);
			file.set(line, { name, line, text: content, matches });
		});
	}
	return [...files.values()].flatMap((file) => [...file.values()].sort((one, other) => one.line - other.line));
}

/** A path as it is shown; a name that is not UTF-8 has its other bytes replaced. */
function text(path: unknown): string {
	if (typeof path === "string") return path;
	const base64 = (path as { base64?: string })?.base64;
	return base64 ? Buffer.from(base64, "base64").toString("utf8") : "";
}
