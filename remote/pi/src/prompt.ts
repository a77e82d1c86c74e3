/** What the model is told of the place where it works: the environment's directory, AGENTS.md files and skills. */
import * as path from "node:path";
import { formatSkillsForPrompt, getAgentDir, parseFrontmatter } from "@earendil-works/pi-coding-agent";
import { type Client, ExecError } from "./client.ts";
import type { About, Environment } from "./environment.ts";

/** In each directory the first of these counts, as pi has it. */
const CONTEXT_FILES = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];
/** Skills that are looked at in one directory of them. */
const MOST_SKILLS = 200;

export interface ContextFile {
	path: string;
	content: string;
}

export interface Told {
	cwd: string;
	contextFiles: ContextFile[];
	skills: any[];
}

/** Reads it from the environment, all at once. */
export async function surroundings(environment: Environment): Promise<Told> {
	const { client, about } = await environment.connect();
	const above = ancestors(about.cwd);
	const [contextFiles, skills] = await Promise.all([
		Promise.all(above.map((directory) => contextFile(client, directory))),
		allSkills(client, about, above),
	]);
	return { cwd: about.cwd, contextFiles: contextFiles.filter((file) => file !== undefined), skills };
}

/** What is told where there is nothing to be had: nothing of the host. */
export function nowhere(why: string): Told {
	return { cwd: `(none: ${why})`, contextFiles: [], skills: [] };
}

/** Puts it in the place of the host's. The user's own instructions to pi stay. */
export function tell(event: any, told: Told): { systemPrompt: string } | undefined {
	const options = event.systemPromptOptions;
	const own = (options?.contextFiles ?? []).filter((file: ContextFile) => path.dirname(file.path) === getAgentDir());
	const contextFiles = [...own, ...told.contextFiles];
	if (!options?.sections) return { systemPrompt: retold(event.systemPrompt, options ?? {}, { ...told, contextFiles }) };
	options.cwd = told.cwd;
	options.contextFiles = contextFiles;
	options.skills = told.skills;
	return undefined;
}

/** Before pi had sections the prompt was one text, made up of parts that are known. */
function retold(prompt: string, host: any, told: Told): string {
	const end = "\nCurrent date: ";
	const replace = (old: string, now: string) => {
		if (old && prompt.includes(old)) prompt = prompt.replace(old, () => now);
		else if (now) {
			const at = prompt.lastIndexOf(end);
			prompt = at < 0 ? prompt + now : prompt.slice(0, at) + now + prompt.slice(at);
		}
	};
	replace(projectContext(host.contextFiles ?? []), projectContext(told.contextFiles));
	replace(formatSkillsForPrompt(host.skills ?? []), formatSkillsForPrompt(told.skills));
	const line = /\nCurrent working directory: [^\n]*/g;
	return prompt.replace(line, "") + `\nCurrent working directory: ${told.cwd}`;
}

function projectContext(files: ContextFile[]): string {
	if (files.length === 0) return "";
	const texts = files.map((file) => `## ${file.path}\n\n${file.content}\n\n`);
	return `\n\n# Project Context\n\nProject-specific instructions and guidelines:\n\n${texts.join("")}`;
}

/** From the root to the directory itself. */
function ancestors(directory: string): string[] {
	const all = [directory];
	while (path.posix.dirname(all[0]) !== all[0]) all.unshift(path.posix.dirname(all[0]));
	return all;
}

async function contextFile(client: Client, directory: string): Promise<ContextFile | undefined> {
	const found = await Promise.all(
		CONTEXT_FILES.map((name) => textOf(client, path.posix.join(directory, name))),
	);
	const first = found.findIndex((content) => content !== undefined);
	if (first < 0) return undefined;
	return { path: path.posix.join(directory, CONTEXT_FILES[first]), content: found[first] as string };
}

/** A file's text; nothing where it cannot be read. */
async function textOf(client: Client, file: string): Promise<string | undefined> {
	try {
		const { dataBase64 } = await client.call<{ dataBase64: string }>("fs/readFile", { path: file, length: 1024 * 1024 });
		return Buffer.from(dataBase64, "base64").toString("utf8").replace(/^\uFEFF/, "");
	} catch (error) {
		if (error instanceof ExecError) return undefined;
		throw error;
	}
}

/** The environment's skills, from where pi looks for them: the first of a name counts. */
async function allSkills(client: Client, about: About, above: string[]): Promise<any[]> {
	const repository = await root(client, above);
	const nearest = [...above].reverse();
	const within = nearest.slice(0, repository === undefined ? undefined : nearest.indexOf(repository) + 1);
	const places = [
		{ directory: path.posix.join(about.cwd, ".pi/skills"), scope: "project", files: true },
		...within.map((at) => ({ directory: path.posix.join(at, ".agents/skills"), scope: "project", files: false })),
		{ directory: path.posix.join(about.home, ".pi/agent/skills"), scope: "user", files: true },
		{ directory: path.posix.join(about.home, ".agents/skills"), scope: "user", files: false },
	];
	const found = await Promise.all(places.map((place) => skillsIn(client, place)));
	const named = new Map<string, any>();
	for (const skill of found.flat()) if (!named.has(skill.name)) named.set(skill.name, skill);
	return [...named.values()];
}

/** The directory that holds the repository. */
async function root(client: Client, above: string[]): Promise<string | undefined> {
	const has = await Promise.all(
		above.map((directory) =>
			client.call("fs/stat", { path: path.posix.join(directory, ".git") }).then(
				() => true,
				(error) => {
					if (error instanceof ExecError) return false;
					throw error;
				},
			),
		),
	);
	const last = has.lastIndexOf(true);
	return last < 0 ? undefined : above[last];
}

interface SkillPlace {
	directory: string;
	scope: string;
	/** Whether a file beside the directories of skills is one too. */
	files: boolean;
}

async function skillsIn(client: Client, place: SkillPlace): Promise<any[]> {
	const asked = { path: place.directory, pattern: "*.md", hidden: false, ignore: ["node_modules"], limit: 10_000 };
	let entries: Array<{ path: unknown; type: string }>;
	try {
		({ entries } = await client.call<any>("fs/find", asked));
	} catch (error) {
		if (error instanceof ExecError) return [];
		throw error;
	}
	const paths = entries.filter(({ path, type }) => typeof path === "string" && type !== "directory");
	const names = paths.map((entry) => entry.path as string);
	const declared = names.filter((name) => path.posix.basename(name) === "SKILL.md");
	// A skill's directory is all its own.
	const isInside = (name: string) =>
		declared.some((other) => other !== name && path.posix.dirname(name).startsWith(`${path.posix.dirname(other)}/`));
	const roots = declared.filter((name) => !isInside(name));
	const plain = place.files ? names.filter((name) => !name.includes("/") && name !== "SKILL.md") : [];
	const skills = await Promise.all([...roots, ...plain].slice(0, MOST_SKILLS).map((name) => skill(client, place, name)));
	return skills.filter((skill) => skill !== undefined);
}

async function skill(client: Client, place: SkillPlace, name: string): Promise<any | undefined> {
	const filePath = path.posix.join(place.directory, name);
	const content = await textOf(client, filePath);
	if (content === undefined) return undefined;
	let front: Record<string, unknown>;
	try {
		front = parseFrontmatter(content).frontmatter as Record<string, unknown>;
	} catch {
		return undefined;
	}
	const { description } = front;
	if (typeof description !== "string" || description.trim() === "") return undefined;
	const baseDir = path.posix.dirname(filePath);
	return {
		name: typeof front.name === "string" && front.name ? front.name : path.posix.basename(baseDir),
		description,
		filePath,
		baseDir,
		sourceInfo: { path: filePath, source: "local", scope: place.scope, origin: "top-level", baseDir },
		disableModelInvocation: front["disable-model-invocation"] === true,
	};
}
