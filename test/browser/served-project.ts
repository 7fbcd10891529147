import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { findProject } from "../../src/cli/base/project.ts";
import { type Serving, startServing } from "../../src/cli/base/serving.ts";
import type { Client } from "../../src/client/client.ts";

/** A project in a folder of its own, served for real: its page, its API, its worker. */
export class ServedProject {
  readonly folder: string;
  #serving: Serving;

  private constructor(folder: string, serving: Serving) {
    this.folder = folder;
    this.#serving = serving;
  }

  /** Serves what `fill` puts into an empty folder. */
  static async start(fill: (folder: string) => void): Promise<ServedProject> {
    const folder = mkdtempSync(join(tmpdir(), "pawl-page-"));
    try {
      fill(folder);
      return new ServedProject(folder, await serve(folder, 0));
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  get url(): string {
    return this.#serving.file.url;
  }

  /** Asks the same server, to see what the page did. */
  get client(): Client {
    return this.#serving.client;
  }

  /** Puts a file into the folder. */
  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  /** Stops the server and lets another take its place, once `meanwhile` is over. */
  async restart(meanwhile: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    const port = Number(new URL(this.url).port);
    await this.#serving.stop();
    await meanwhile();
    this.#serving = await serve(this.folder, port);
  }

  async stop(): Promise<void> {
    await this.#serving.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const silent = () => undefined;
const LOG = { info: silent, warn: silent, error: silent };

function serve(folder: string, port: number): Promise<Serving> {
  const project = findProject({ cwd: folder, env: {} });
  return startServing({ project, host: "127.0.0.1", port, worker: true, log: LOG });
}

/** Serves a project with this text as its `pawl.config.ts`. */
export function serveProject(config: string): Promise<ServedProject> {
  return ServedProject.start((folder) => writeFileSync(join(folder, "pawl.config.ts"), config));
}

/** Serves a copy of an example, without what running it in the clone has left there. */
export function serveExample(name: string): Promise<ServedProject> {
  const example = fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
  const filter = (path: string) => ![".pawl", "data"].includes(basename(path));
  return ServedProject.start((folder) => cpSync(example, folder, { recursive: true, filter }));
}
