import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { PawlError } from "../kernel/errors.ts";
import { makeDirectory } from "../store/make-directory.ts";
import { packageVersion } from "./package-version.ts";

/** What `pawl init` can make, each a folder of `templates`. */
export const TEMPLATES = ["assets", "duckdb", "api-sync", "evm", "shards"] as const;

/** The name of something that `pawl init` can make. */
export type TemplateName = (typeof TEMPLATES)[number];

/** What is to be made, and where. */
export type ProjectRequest = {
  readonly directory: string;
  readonly template: TemplateName;
  /** Partitions of the project begin a while before. */
  readonly now: number;
};

/** What became of a folder. */
export type MadeProject = {
  readonly created: readonly string[];
  /** What was added to files that were there, each a sentence. */
  readonly changed: readonly string[];
  /** Files that were there and stayed as they were. */
  readonly kept: readonly string[];
};

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const IS_CLONE = extname(import.meta.url) === ".ts";
const TEMPLATES_FOLDER = join(ROOT, "templates");
/** The files that all projects have. */
const SHARED = "every";

/** What templates say for the name of the project, and for the first day of it. */
const TEMPLATE_NAME = "my-project";
const TEMPLATE_START = "2026-01-01";

const DAY_MS = 86_400_000;
const DAYS_AT_FIRST = 30;

/** npm leaves files with this name out of packages, so templates have it without the dot. */
const GITIGNORE = ".gitignore";
const MANIFEST = "package.json";
/** Files that an existing project keeps as they are: nothing breaks without ours. */
const KEPT = new Set(["README.md", "tsconfig.json"]);

const texts = z.record(z.string(), z.string()).optional();
const Manifest = z.looseObject({
  name: z.string().optional(),
  private: z.boolean().optional(),
  type: z.string().optional(),
  scripts: texts,
  dependencies: texts,
  devDependencies: texts,
});
type Manifest = z.infer<typeof Manifest>;

/** A file that is written: all of it is known before the first one is. */
type Planned = { readonly name: string; readonly text: string; readonly isNew: boolean };

/**
 * Makes the files of a project. What is there is never written over: `package.json` and `.gitignore` get
 * what they lack. Throws STATE_ILLEGAL where code is in the way, and then nothing was written.
 */
export function makeProject(request: ProjectRequest): MadeProject {
  const { directory, template } = request;
  const files = templateFiles(request);
  const there = [...files.keys()].filter((name) => isThere(join(directory, name)));
  const inTheWay = there.filter(
    (name) => ![...KEPT, GITIGNORE, MANIFEST].includes(name) || !isFile(join(directory, name)),
  );
  if (inTheWay.length > 0) {
    throw illegal(
      `${inTheWay.join(", ")} ${inTheWay.length === 1 ? "exists" : "exist"} already in ${directory}; ` +
        "nothing was changed. Name another directory.",
      { directory, files: inTheWay },
    );
  }
  const kept = there.filter((name) => KEPT.has(name));
  const manifest = plannedManifest(directory, template);
  const ignored = plannedGitignore(directory, files.get(GITIGNORE) ?? "");
  const planned: Planned[] = [...files]
    .filter(([name]) => !there.includes(name) && name !== MANIFEST && name !== GITIGNORE)
    .map(([name, text]) => ({ name, text, isNew: true }));
  for (const each of [manifest.file, ignored.file]) if (each !== null) planned.push(each);
  write(directory, planned);
  const created = planned.filter(({ isNew }) => isNew).map(({ name }) => name);
  return {
    created: created.toSorted(),
    changed: [...manifest.changed, ...ignored.changed],
    kept: [
      ...kept,
      ...(manifest.file === null ? [MANIFEST] : []),
      ...(ignored.file === null ? [GITIGNORE] : []),
    ],
  };
}

/** Whether something has the name, also a link that leads nowhere. */
function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // What cannot be looked at cannot be written either, which says so itself.
    return false;
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function write(directory: string, files: readonly Planned[]): void {
  try {
    makeDirectory(directory);
    for (const { name, text, isNew } of files) {
      const path = join(directory, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text, { flag: isNew ? "wx" : "w" });
    }
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new PawlError(
      "DATA_DIRECTORY_UNWRITABLE",
      `A project cannot be made in ${directory} (${reason}). Name a directory that can be written.`,
      { cause, details: { directory } },
    );
  }
}

/** The files of a template by their names in the project, with its name and its first day in them. */
function templateFiles({ directory, template, now }: ProjectRequest): Map<string, string> {
  const start = new Date(now - DAYS_AT_FIRST * DAY_MS).toISOString().slice(0, 10);
  const found = [SHARED, template].flatMap((folder) => {
    const path = join(TEMPLATES_FOLDER, folder);
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((file): [string, string] => {
        const name = relative(path, file).replaceAll("\\", "/");
        const text = readFileSync(file, "utf8")
          .replaceAll(TEMPLATE_NAME, projectName(directory))
          .replaceAll(TEMPLATE_START, start);
        return [name === GITIGNORE.slice(1) ? GITIGNORE : name, text];
      });
  });
  return new Map(found);
}

/** The name of a folder as npm takes it. */
function projectName(directory: string): string {
  const name = basename(directory)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "");
  return name === "" ? "pawl-project" : name;
}

/** What `package.json` is to say, and what of it is new in one that is there. */
function plannedManifest(
  directory: string,
  template: TemplateName,
): { file: Planned | null; changed: string[] } {
  const path = join(directory, MANIFEST);
  const isNew = !existsSync(path);
  const before: Manifest = isNew ? { name: projectName(directory), private: true } : read(path);
  const after = { ...before };
  const changed: string[] = [];
  if (before.type !== "module") {
    if (!isNew) {
      refuseCommonJs(directory, before.type);
      changed.push(`Set "type" to "module" in ${MANIFEST}.`);
    }
    after.type = "module";
  }
  const wanted = [SHARED, template]
    .map((folder) => join(TEMPLATES_FOLDER, folder, MANIFEST))
    .filter((file) => existsSync(file))
    .map(read);
  const all = (part: "scripts" | "dependencies" | "devDependencies"): Record<string, string> =>
    Object.assign({}, ...wanted.map((each) => each[part] ?? {})) as Record<string, string>;
  const depended = { ...before.dependencies, ...before.devDependencies };
  const parts = {
    scripts: missing(all("scripts"), withoutPlaceholder(before.scripts)),
    dependencies: missing({ ...all("dependencies"), pawl: ownVersion() }, depended),
    devDependencies: missing(all("devDependencies"), depended),
  };
  for (const [part, added] of Object.entries(parts) as [keyof typeof parts, typeof depended][]) {
    const names = Object.keys(added);
    if (names.length === 0) continue;
    after[part] = { ...before[part], ...added };
    if (!isNew) changed.push(`Added ${names.join(", ")} to the ${part} of ${MANIFEST}.`);
  }
  const text = `${JSON.stringify(after, null, isNew ? 2 : indentOf(path))}\n`;
  return { file: isNew || changed.length > 0 ? { name: MANIFEST, text, isNew } : null, changed };
}

/** What the lines of a file of JSON begin with, so that it stays as its owner writes it. */
function indentOf(path: string): string {
  return /^\{\r?\n([ \t]+)"/.exec(readFileSync(path, "utf8"))?.[1] ?? "  ";
}

function read(path: string): Manifest {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    // As it stands: what the schema makes of it has another order.
    if (isManifest(value)) return value;
    throw new TypeError("a field has another type than it has to have");
  } catch (cause) {
    throw new PawlError("CONFIG_INVALID", `${path} is not a valid ${MANIFEST}; correct it first.`, {
      cause,
      details: { file: path },
    });
  }
}

function isManifest(value: unknown): value is Manifest {
  return Manifest.safeParse(value).success;
}

/** Entries that are wanted and not there. */
function missing(
  wanted: Readonly<Record<string, string>>,
  there: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => !(name in there)));
}

/** `npm init` writes a script that only says that there are no tests. */
function withoutPlaceholder(scripts: Manifest["scripts"]): Manifest["scripts"] {
  const isPlaceholder = scripts?.["test"]?.includes("no test specified") === true;
  if (!isPlaceholder) return scripts;
  const { test: _, ...others } = scripts;
  return others;
}

/** Of the package that runs; a clone is not published, so a project of it depends on its folder. */
function ownVersion(): string {
  return IS_CLONE ? `file:${realpathSync(ROOT)}` : `^${packageVersion()}`;
}

/**
 * Refuses to make code of others ES modules. `npm init` sets "type" as well, but there nothing depends
 * on it yet.
 */
function refuseCommonJs(directory: string, type: string | undefined): void {
  const code = firstCode(directory);
  if (code === null) return;
  const path = join(directory, MANIFEST);
  const said = type === undefined ? 'has no "type"' : `has "type": ${JSON.stringify(type)}`;
  throw illegal(
    `${path} ${said}, which ${code} may rely on, and a Pawl project is made of ES modules; nothing ` +
      'was changed. Set "type" to "module" there, or name a directory for the project.',
    { directory, file: code },
  );
}

/** A file whose meaning depends on "type", if there is one. */
function firstCode(directory: string): string | null {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name.startsWith(".")) continue;
    if (entry.isFile() && /\.[jt]sx?$/.test(entry.name)) return entry.name;
    if (!entry.isDirectory() || existsSync(join(directory, entry.name, MANIFEST))) continue;
    const below = firstCode(join(directory, entry.name));
    if (below !== null) return join(entry.name, below);
  }
  return null;
}

function illegal(message: string, details: Record<string, unknown>): PawlError {
  return new PawlError("STATE_ILLEGAL", message, { details });
}

/** What `.gitignore` is to name, and what of it is new in one that is there. */
function plannedGitignore(
  directory: string,
  wanted: string,
): { file: Planned | null; changed: string[] } {
  const path = join(directory, GITIGNORE);
  if (!existsSync(path)) {
    return { file: { name: GITIGNORE, text: wanted, isNew: true }, changed: [] };
  }
  const before = readFileSync(path, "utf8");
  const bare = (line: string): string => line.trim().replaceAll(/^\/|\/$/g, "");
  const there = new Set(before.split("\n").map(bare));
  const lines = wanted.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const added = lines.filter((line) => !there.has(bare(line)));
  if (added.length === 0) return { file: null, changed: [] };
  const text = `${before.replace(/(?<=[^\n])$/, "\n")}${added.join("\n")}\n`;
  return {
    file: { name: GITIGNORE, text, isNew: false },
    changed: [`Added ${added.join(", ")} to ${GITIGNORE}.`],
  };
}
