import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProject } from "../../src/cli/project.ts";
import { type Serving, startServing } from "../../src/cli/serving.ts";
import type { Client } from "../../src/client/client.ts";

/** A project in a folder of its own, served for real: its page, its API, its worker. */
export type ServedProject = {
  readonly folder: string;
  readonly url: string;
  /** Asks the same server, to see what the page did. */
  readonly client: Client;
  /** Puts a file into the folder. */
  write(name: string, text: string): void;
  stop(): Promise<void>;
};

const silent = () => undefined;
const LOG = { debug: silent, info: silent, warn: silent, error: silent };

/** Serves a project with this text as its `pawl.config.ts`. */
export async function serveProject(config: string): Promise<ServedProject> {
  const folder = mkdtempSync(join(tmpdir(), "pawl-page-"));
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
  write("pawl.config.ts", config);
  let serving: Serving;
  try {
    const project = findProject({ cwd: folder, env: {} });
    serving = await startServing({ project, host: "127.0.0.1", port: 0, worker: true, log: LOG });
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  return {
    folder,
    url: serving.file.url,
    client: serving.client,
    write,
    async stop() {
      await serving.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
