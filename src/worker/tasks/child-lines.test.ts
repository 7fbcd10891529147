import { ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { captureChildren } from "./child-lines.ts";
import { asOwnerOfLines, captureConsole, type LineKeeper } from "./console-lines.ts";

const out = new PassThrough();
const err = new PassThrough();
let kept: string[] = [];
const keeper: LineKeeper = {
  output: "keep-and-show",
  log: (message, { level = "info" }) => kept.push(`${level}: ${message}`) > 0,
};

// Other tests are in this process too.
const before: unknown = Reflect.get(ChildProcess.prototype, "spawn");
const outputs = { stdout: out, stderr: err };
let release = (): void => undefined;

beforeAll(() => {
  captureConsole({ ...console });
  release = captureChildren(outputs);
});

afterAll(() => {
  const releaseAgain = captureChildren(outputs);
  release();
  expect(Reflect.get(ChildProcess.prototype, "spawn")).not.toBe(before);
  releaseAgain();
  expect(Reflect.get(ChildProcess.prototype, "spawn")).toBe(before);
});

beforeEach(() => {
  kept = [];
  out.read();
  err.read();
});

/** Runs a script of the shell within a task, to its end. */
async function run(
  script: string,
  start: (script: string) => ChildProcess,
  owner: LineKeeper = keeper,
): Promise<ChildProcess> {
  const child = asOwnerOfLines(owner, () => start(script));
  await once(child, "close");
  return child;
}

function inherited(script: string): ChildProcess {
  return spawn("/bin/sh", ["-c", script], { stdio: "inherit" });
}

test("what a child process writes where its task does is kept by lines, and shown", async () => {
  const child = await run("echo one; echo two >&2; printf three", inherited);

  expect(kept.toSorted()).toEqual(["info: one", "info: three", "warn: two"]);
  expect(String(out.read())).toBe("one\nthree");
  expect(String(err.read())).toBe("two\n");
  expect([child.exitCode, child.stdout, child.stderr, child.stdio[1]]).toEqual([
    0,
    null,
    null,
    null,
  ]);
});

test("one stream may go into the other", async () => {
  await run("echo one >&2", (script) =>
    spawn("/bin/sh", ["-c", script], { stdio: ["ignore", "inherit", 1] }),
  );
  expect(kept).toEqual(["info: one"]);
  expect(String(out.read())).toBe("one\n");
});

test("where it is only kept, what nobody keeps any more is shown", async () => {
  const first: LineKeeper = {
    output: "keep",
    log: (message) => message === "one" && kept.push(message) > 0,
  };
  await run("echo one; echo two", inherited, first);
  expect(kept).toEqual(["one"]);
  expect(String(out.read())).toBe("two\n");
});

test("what the task reads itself is the task's", async () => {
  let read = "";
  await run("echo one; echo two >&2", (script) => {
    const child = spawn("/bin/sh", ["-c", script], { stdio: ["ignore", "pipe", "ignore"] });
    child.stdout.on("data", (bytes) => {
      read += String(bytes);
    });
    return child;
  });
  expect(read).toBe("one\n");
  expect(kept).toEqual([]);
});

test("what is started beside tasks writes where it always did", async () => {
  const child = spawn("/bin/sh", ["-c", "exit 0"], { stdio: ["ignore", "inherit", "inherit"] });
  await once(child, "close");
  expect(out.read()).toBeNull();
});

test("a long line is cut, and says by how much", async () => {
  await run(`head -c 20000 /dev/zero | tr '\\0' x`, inherited);
  expect(kept).toEqual([
    expect.stringMatching(/^info: x{8000}… \(12000 more characters were cut\)$/),
  ]);
});

test("a command that there is not fails as it always did", async () => {
  const child = asOwnerOfLines(keeper, () => spawn("/no/such/command", [], { stdio: "inherit" }));
  const [error] = (await once(child, "error")) as [NodeJS.ErrnoException];
  expect(error.code).toBe("ENOENT");
});

test("forked modules are children too", async () => {
  await run("console.log('forked')", (code) => fork("-", [], { execArgv: ["-e", code] }));
  expect(kept).toEqual(["info: forked"]);
});
