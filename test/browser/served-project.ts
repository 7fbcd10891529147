import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProject } from "../../src/cli/project.ts";
import { type Serving, startServing } from "../../src/cli/serving.ts";
import type { Client } from "../../src/client/client.ts";

/** A project in a folder of its own, served for real: its page, its API, its worker. */
export class ServedProject {
  readonly folder: string;
  #serving: Serving;

  private constructor(folder: string, serving: Serving) {
    this.folder = folder;
    this.#serving = serving;
  }

  /** Serves a project with this text as its `pawl.config.ts`. */
  static async start(config: string): Promise<ServedProject> {
    const folder = mkdtempSync(join(tmpdir(), "pawl-page-"));
    try {
      writeFileSync(join(folder, "pawl.config.ts"), config);
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
  return ServedProject.start(config);
}
