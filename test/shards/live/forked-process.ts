import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** A process of a live test that says and hears things. */
export class ForkedProcess<Said extends { type: string }, Heard> {
  readonly #child: ChildProcess;
  readonly #said: Said[] = [];
  readonly #listeners = new Set<() => void>();
  #isGone = false;
  stderr = "";

  constructor(file: string, env: NodeJS.ProcessEnv, args: readonly string[] = []) {
    const path = fileURLToPath(new URL(file, import.meta.url));
    this.#child = fork(path, args, { env, stdio: ["ignore", "ignore", "pipe", "ipc"] });
    this.#child.stderr?.on("data", (part: Buffer) => (this.stderr += part.toString()));
    this.#child.on("message", (message: Said) => {
      this.#said.push(message);
      this.#wake();
    });
    this.#child.once("exit", () => {
      this.#isGone = true;
      this.#wake();
    });
  }

  tell(message: Heard & object): void {
    if (!this.#isGone && this.#child.connected) this.#child.send(message);
  }

  /** Resolves with the first thing of a type that it has said since the last was taken. */
  async heard<Type extends Said["type"]>(type: Type): Promise<Extract<Said, { type: Type }>> {
    for (;;) {
      const at = this.#said.findIndex((each) => each.type === type);
      const [found] = at < 0 ? [] : this.#said.splice(at, 1);
      if (found !== undefined) return found as Extract<Said, { type: Type }>;
      if (this.#isGone) throw new Error(`The process has ended: ${this.stderr}`);
      await new Promise<void>((resolve) => this.#listeners.add(resolve));
    }
  }

  /** Ends it as a power failure would. */
  async kill(): Promise<void> {
    if (this.#isGone) return;
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await gone;
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }
}
