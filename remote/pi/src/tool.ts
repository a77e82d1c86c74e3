/**
 * pi's file tools, each with operations of the environment.
 *
 * pi looks at the host's disk for the path that it is given: for spellings of macOS before a read, and
 * for links before a write. So it is given a path that no host can have, and operations that know the
 * real one; what it says about the former is said about the latter.
 */
import { randomBytes } from "node:crypto";
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { type About, type Environment, resolvePath, unlessAborted } from "./environment.ts";

/** `/dev/null` is no directory, so nothing is below it. */
const NOWHERE = `/dev/null/${randomBytes(8).toString("hex")}`;

export interface FileTool {
	/** pi's definition for a directory to work in, with or without operations. */
	create(cwd: string, options?: { operations?: any }): any;
	/** The operations of one call, on this path of the environment. */
	operations(path: string, params: any, signal: AbortSignal | undefined): any;
	/** How a message names the path. */
	named(path: string, params: any): string;
	/** What else is different from pi's definition. */
	changes?: (definition: any) => object;
}

export function registerFileTool(pi: ExtensionAPI, environment: Environment, tool: FileTool): void {
	const plain = tool.create(process.cwd());
	pi.registerTool({
		...plain,
		...tool.changes?.(plain),
		async execute(id: string, params: any, signal: AbortSignal | undefined, onUpdate: any, ctx: any) {
			const { about } = await unlessAborted(environment.connect(), signal, "Operation aborted");
			const path = target(params, about);
			const nowhere = NOWHERE + path;
			const definition = tool.create(NOWHERE + about.cwd, { operations: tool.operations(path, params, signal) });
			const there = ctx && Object.create(ctx, { cwd: { value: NOWHERE + about.cwd, enumerable: true } });
			const say = (text: string) => text.split(nowhere).join(tool.named(path, params)).split(NOWHERE).join("");
			try {
				const result = await definition.execute(id, { ...params, path: nowhere }, signal, onUpdate, there);
				return worded(result, say);
			} catch (error) {
				if (error instanceof Error && error.message.includes(NOWHERE)) throw new Error(say(error.message));
				throw error;
			}
		},
	});
}

/** The path that a call is about: the directory to work in if it names none. */
export function target(params: any, about: About): string {
	return resolvePath(typeof params?.path === "string" && params.path ? params.path : ".", about);
}

/** The same with all its texts said in another way. */
function worded<T>(value: T, say: (text: string) => string): T {
	if (typeof value === "string") return (value.includes(NOWHERE) ? say(value) : value) as T;
	if (Array.isArray(value)) return value.map((item) => worded(item, say)) as T;
	if (value === null || typeof value !== "object") return value;
	return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, worded(item, say)])) as T;
}
