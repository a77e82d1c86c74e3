/** read, write, edit and ls. Each asks the environment once, where nothing is unusual. */
import {
	createEditToolDefinition,
	createLsToolDefinition,
	createReadToolDefinition,
	createWriteToolDefinition,
	type ExtensionAPI,
} from "@earendil-works/pi-coding-agent";
import { ExecError } from "./client.ts";
import { type Environment, nodeError } from "./environment.ts";
import { registerFileTool } from "./tool.ts";

/** Bytes of a file that are asked for at once. Most files are one part. */
const PART = 4 * 1024 * 1024;

interface Part {
	bytes: Buffer;
	size: number;
	eof: boolean;
	version: string;
}

export function registerFiles(pi: ExtensionAPI, environment: Environment): void {
	registerFileTool(pi, environment, {
		create: createReadToolDefinition,
		operations: (path) => readOperations(environment, path),
		named: (path) => path,
	});
	registerFileTool(pi, environment, {
		create: createWriteToolDefinition,
		operations: (path) => ({
			// Writing makes the directories too.
			mkdir: async () => {},
			writeFile: (_path: string, content: string) => write(environment, path, content),
		}),
		named: (_path, params) => params.path,
	});
	registerFileTool(pi, environment, {
		create: createEditToolDefinition,
		operations: (path) => editOperations(environment, path),
		named: (_path, params) => params.path,
		// The preview would be of the host's file. (The diff is shown when it is done.)
		changes: (definition) => ({
			renderCall: (args: any, theme: any, context: any) =>
				definition.renderCall(args, theme, Object.create(context, { argsComplete: { value: false } })),
		}),
	});
	registerFileTool(pi, environment, {
		create: createLsToolDefinition,
		operations: (path) => lsOperations(environment, path),
		named: (path) => path,
	});
}

async function part(environment: Environment, path: string, offset: number): Promise<Part> {
	const asked = { path, offset, length: PART };
	const answer = await environment.call<any>("fs/readFile", asked).catch((error) => {
		throw nodeError(error);
	});
	const { size, eof, version } = answer;
	return { bytes: Buffer.from(answer.dataBase64, "base64"), size, eof, version };
}

/** All parts of a file from the first on, up to the size it had then: one that grows comes to an end. */
async function* parts(environment: Environment, path: string, first: Part): AsyncGenerator<Buffer> {
	let last = first;
	for (let offset = last.bytes.length; ; offset += last.bytes.length) {
		yield last.bytes;
		if (last.eof || last.bytes.length === 0 || (first.size > 0 && offset >= first.size)) return;
		last = await part(environment, path, offset);
	}
}

async function whole(environment: Environment, path: string, first: Part): Promise<Buffer> {
	const all: Buffer[] = [];
	for await (const bytes of parts(environment, path, first)) all.push(bytes);
	return Buffer.concat(all);
}

function readOperations(environment: Environment, path: string) {
	let first: Part;
	return {
		access: async () => {
			first = await part(environment, path, 0);
		},
		detectImageMimeType: async () => imageType(first.bytes),
		readFile: () => whole(environment, path, first),
		createReadStream: () => parts(environment, path, first),
	};
}

function editOperations(environment: Environment, path: string) {
	let first: Part;
	return {
		access: async () => {
			const [stat, content] = await Promise.all([
				environment.call<any>("fs/stat", { path }),
				part(environment, path, 0),
			]).catch((error) => {
				throw nodeError(error);
			});
			if (!stat.writable) throw new ExecError(`EACCES: ${path} is not writable`, "EACCES");
			first = content;
		},
		readFile: () => whole(environment, path, first),
		writeFile: (_path: string, content: string) => write(environment, path, content, first.version),
	};
}

/** Writes it whole. With a version, only if the file is still that one. */
async function write(environment: Environment, path: string, content: string, ifVersion?: string): Promise<void> {
	const file = { path, dataBase64: Buffer.from(content, "utf8").toString("base64") };
	const how = ifVersion === undefined ? { createParents: true } : { ifVersion };
	await environment.call("fs/writeFile", { ...file, ...how }).catch((error) => {
		if (error instanceof ExecError && error.code === "CELL_TA_EXEC_CONFLICT") {
			throw new Error(`${path} has been changed by somebody else meanwhile: read it again, nothing was written`);
		}
		throw nodeError(error);
	});
}

interface Entry {
	name: string;
	type: string;
	targetType?: string | null;
}

function lsOperations(environment: Environment, path: string) {
	let failure: ExecError | undefined;
	/** What each name leads to; null where it leads nowhere. */
	const types = new Map<string, string | null>();
	/** pi asks about the directory itself before it asks about what is in it. */
	let isFirst = true;
	const list = async () => {
		const { entries } = await environment.call<{ entries: Entry[] }>("fs/readdir", { path });
		for (const { name, type, targetType } of entries) {
			types.set(name, type === "symlink" ? (targetType ?? null) : type);
		}
	};
	return {
		exists: async () => {
			try {
				await list();
				return true;
			} catch (error) {
				if (!(error instanceof ExecError)) throw error;
				failure = nodeError(error) as ExecError;
				if (error.code !== "ENOTDIR") return error.code !== "ENOENT";
				// It is a file, or something above it is.
				const stat = environment.call("fs/stat", { path });
				return stat.then(
					() => true,
					() => false,
				);
			}
		},
		stat: async (asked: string) => {
			if (isFirst) {
				isFirst = false;
				return { isDirectory: () => failure?.code !== "ENOTDIR" };
			}
			const type = types.get(asked.slice(asked.lastIndexOf("/") + 1));
			if (!type) throw new ExecError(`ENOENT: ${asked} leads nowhere`, "ENOENT");
			return { isDirectory: () => type === "directory" };
		},
		readdir: async () => {
			if (failure) throw failure;
			return [...types.keys()];
		},
	};
}

/** How much of a file pi looks at to know an image. */
const SNIFFED = 4100;

/** The type of an image that a model can be shown, by its content and as pi tells them. */
export function imageType(file: Buffer): string | null {
	const bytes = file.subarray(0, SNIFFED);
	const at = (offset: number, text: string) =>
		bytes.subarray(offset, offset + text.length).toString("latin1") === text;
	if (at(0, "\xff\xd8\xff")) return bytes[3] === 0xf7 ? null : "image/jpeg";
	if (at(0, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR")) return isAnimated(bytes) ? null : "image/png";
	if (at(0, "GIF87a") || at(0, "GIF89a")) return "image/gif";
	if (at(0, "RIFF") && at(8, "WEBP")) return "image/webp";
	return at(0, "BM") && isBitmap(bytes) ? "image/bmp" : null;
}

function isAnimated(png: Buffer): boolean {
	for (let at = 8; at + 8 <= png.length; at += 12 + png.readUInt32BE(at)) {
		const chunk = png.subarray(at + 4, at + 8).toString("latin1");
		if (chunk === "acTL" || chunk === "IDAT") return chunk === "acTL";
	}
	return false;
}

function isBitmap(bytes: Buffer): boolean {
	if (bytes.length < 30) return false;
	const [size, pixels, header] = [2, 10, 14].map((at) => bytes.readUInt32LE(at));
	if ((size !== 0 && (size < 26 || pixels >= size)) || pixels < 14 + header) return false;
	if (header !== 12 && (header < 40 || header > 124)) return false;
	const [planes, depth] = (header === 12 ? [22, 24] : [26, 28]).map((at) => bytes.readUInt16LE(at));
	return planes === 1 && [1, 4, 8, 16, 24, 32].includes(depth);
}
