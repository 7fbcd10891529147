import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { WorkerConnection } from "../../src/client/worker-connection.ts";
import type { Json } from "../../src/kernel/canonical.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import type { UpstreamAnswer, UpstreamRequest } from "../../src/work/asset/upstream-protocol.ts";
import type { StepAnswer } from "../../src/work/shard/step-protocol.ts";
import type {
  ClaimedHead,
  ClaimedProbe,
  HeadClaimAnswer,
  HeadClaimRequest,
  HeadReportRequest,
  Learnt,
  ProbeClaimAnswer,
  ProbeClaimRequest,
  ProbeReportRequest,
  ProbeResult,
  SourceExchange,
} from "../../src/work/probe-protocol.ts";
import type {
  CheckpointRequest,
  ClaimAnswer,
  ClaimedGroup,
  ClaimRequest,
  HeartbeatRequest,
  LogRequest,
  ReportedResult,
  ReportRequest,
  TaskRef,
} from "../../src/work/run/protocol.ts";

type Task = {
  taskKey: number;
  partitionKeys: readonly string[];
  attempt: number;
  state: "ready" | "running" | "ended";
  leaseId: string | null;
  checkpoint: Json;
  isCancelled: boolean;
};

/** Tasks of one run to be worked on. */
export type Work = Partial<Omit<ClaimedGroup, "tasks">> & {
  asset_key: string;
  /** The partition keys of each task. */
  tasks: readonly (readonly string[])[];
};

/** Messages whose path is not their name. */
const PATHS: Record<string, keyof WorkerConnection> = {
  "probes/claim": "claimProbes",
  "probes/report": "reportProbes",
  "heads/claim": "claimHeads",
  "heads/report": "reportHeads",
  sources: "exchangeSources",
  steps: "sayStep",
};

/**
 * The other side of the worker protocol in memory: attempts fence, leases run out. Its answers can
 * be lost, which a real server cannot be asked to do at a chosen moment.
 */
export class WorkServer implements WorkerConnection {
  readonly address = null;
  readonly results: (ReportedResult & { answer: "recorded" | "lost" })[] = [];
  readonly lines: LogRequest["items"] = [];
  readonly heartbeats: HeartbeatRequest[] = [];
  readonly claims: ClaimRequest[] = [];
  readonly reports: ReportRequest[] = [];
  readonly released = new Set<string>();
  /** Leases with tasks. */
  readonly granted: string[] = [];
  readonly probeClaims: ProbeClaimRequest[] = [];
  readonly evaluations: ProbeResult[] = [];
  readonly headClaims: HeadClaimRequest[] = [];
  readonly looks: HeadReportRequest["results"] = [];
  readonly checkpoints: CheckpointRequest["items"] = [];
  readonly learnt = new Map<string, Learnt>();
  /** Runs before each message; what it throws is the answer. */
  before: (message: string) => void | Promise<void> = () => undefined;
  /** Runs after each message took effect; what it throws is the answer. */
  after: (message: string) => void | Promise<void> = () => undefined;
  /** What is upstream of tasks; nothing unless a test says otherwise. */
  upstreamOf: (request: UpstreamRequest) => UpstreamAnswer = () => {
    return { items: [], total: 0, next_cursor: null, pos: 0 };
  };
  readonly #ttlMs: number;
  /** Whether claims may come along with reports; not with servers of earlier versions. */
  readonly #takesClaims: boolean;
  readonly #groups: { group: Omit<ClaimedGroup, "tasks">; tasks: Task[] }[] = [];
  readonly #leases = new Map<string, { expiresAt: number; answer: ClaimAnswer }>();
  #probes: ClaimedProbe[] = [];
  #heads: ClaimedHead[] = [];
  #listeners: (() => void)[] = [];

  constructor({ ttlMs = 15_000, takesClaims = false } = {}) {
    this.#ttlMs = ttlMs;
    this.#takesClaims = takesClaims;
  }

  add({ tasks, ...more }: Work): void {
    const run_pos = this.#groups.length + 1;
    this.#groups.push({
      group: {
        run_id: `run_${run_pos}`,
        run_pos,
        run_key: `manual:${run_pos}`,
        backfill_id: null,
        spec_hash: "0".repeat(64),
        batch: false,
        config: {},
        labels: {},
        timeout_ms: 60_000,
        stall_after_ms: null,
        ...more,
      },
      tasks: tasks.map((partitionKeys, taskKey) => ({
        taskKey,
        partitionKeys,
        attempt: 0,
        state: "ready",
        leaseId: null,
        checkpoint: null,
        isCancelled: false,
      })),
    });
    this.#changed();
  }

  /** Evaluations to be made, each of a poll sensor unless told otherwise. */
  addProbes(...probes: (Partial<ClaimedProbe> & { name: string })[]): void {
    for (const { name, ...more } of probes) {
      this.#probes.push({
        probe_id: `sensor:${name}`,
        attempt: 1,
        kind: "poll",
        sensor_id: name,
        name,
        watch: null,
        target: null,
        timeout_ms: 60_000,
        max_run_requests: 100,
        cursor: null,
        expected_state_version: 1,
        poll_epoch: 1_000,
        message: null,
        found: null,
        ...more,
      });
    }
    this.#changed();
  }

  /** Heads to be looked up. */
  addHeads(...heads: ClaimedHead[]): void {
    this.#heads.push(...heads);
    this.#changed();
  }

  /** Lets everything that has ended be tried again, with its checkpoint. */
  tryAgain(): void {
    for (const { tasks } of this.#groups) {
      for (const task of tasks) if (task.state === "ended") task.state = "ready";
    }
    this.#changed();
  }

  cancelAll(): void {
    for (const { tasks } of this.#groups) for (const task of tasks) task.isCancelled = true;
  }

  /** What a sweep does: tasks of leases that ran out are ready again. */
  expireLeases(): void {
    for (const { tasks } of this.#groups) {
      for (const task of tasks) {
        const lease = task.leaseId === null ? undefined : this.#leases.get(task.leaseId);
        if (task.state !== "running" || (lease?.expiresAt ?? 0) > performance.now()) continue;
        task.state = "ready";
        task.leaseId = null;
      }
    }
    this.#changed();
  }

  /** Resolves as soon as the condition holds. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#listeners.push(resolve));
  }

  async claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimAnswer> {
    await this.#receive("claim");
    this.claims.push(request);
    this.#changed();
    const answer = await this.#claimed(request, signal);
    await this.after("claim");
    return answer;
  }

  async heartbeat(request: HeartbeatRequest) {
    await this.#receive("heartbeat");
    this.heartbeats.push(request);
    const now = performance.now();
    const renewed = request.leases.filter((id) => (this.#leases.get(id)?.expiresAt ?? 0) > now);
    for (const id of renewed) {
      const lease = this.#leases.get(id);
      if (lease !== undefined) lease.expiresAt = now + this.#ttlMs;
    }
    const refs = request.tasks.map(({ run_pos, task_key, attempt }) => ({
      run_pos,
      task_key,
      attempt,
    }));
    const lost = refs.filter((ref) => this.#current(ref) === null);
    const cancelled = refs.filter((ref) => this.#current(ref)?.isCancelled === true);
    await this.after("heartbeat");
    this.#changed();
    return { ttl_ms: this.#ttlMs, renewed, lost, cancelled };
  }

  async checkpoint(request: CheckpointRequest) {
    await this.#receive("checkpoint");
    const accepted = request.items.map(({ value, ...ref }) => {
      const task = this.#current(ref);
      if (task === null) return false;
      task.checkpoint = value;
      this.checkpoints.push({ ...ref, value });
      return true;
    });
    await this.after("checkpoint");
    this.#changed();
    return { accepted };
  }

  async log(request: LogRequest) {
    await this.#receive("log");
    const accepted = request.items.map((item) => this.#current(item) !== null);
    this.lines.push(...request.items.filter((_, at) => accepted[at]));
    await this.after("log");
    return { accepted };
  }

  async report(request: ReportRequest) {
    await this.#receive("report");
    this.reports.push(request);
    const results = request.results.map((result) => {
      const task = this.#current(result);
      const answer = task === null ? ("lost" as const) : ("recorded" as const);
      if (task !== null) task.state = result.released === true ? "ready" : "ended";
      this.results.push({ ...result, answer });
      return answer;
    });
    for (const id of request.released_leases) this.released.add(id);
    const { claim, worker_id, code_version } = request;
    if (claim !== undefined && !this.#takesClaims) {
      throw new PawlError("INPUT_INVALID", "This server knows of no claims with reports.");
    }
    this.#changed();
    const claimed =
      claim === undefined
        ? {}
        : { claimed: await this.#claimed({ ...claim, worker_id, code_version, wait_ms: 0 }) };
    await this.after("report");
    return { results, ...claimed };
  }

  async claimProbes(request: ProbeClaimRequest, signal?: AbortSignal): Promise<ProbeClaimAnswer> {
    await this.#receive("probes/claim");
    this.probeClaims.push(request);
    this.#changed();
    const deadline = performance.now() + request.wait_ms;
    while (this.#probes.length === 0 && performance.now() < deadline) {
      await this.#change(signal);
    }
    const probes = this.#probes.splice(0, request.slots);
    await this.after("probes/claim");
    return { ttl_ms: this.#ttlMs, probes };
  }

  async reportProbes(request: ProbeReportRequest) {
    await this.#receive("probes/report");
    this.evaluations.push(...request.results);
    await this.after("probes/report");
    this.#changed();
    return { results: request.results.map(() => "recorded" as const) };
  }

  async claimHeads(request: HeadClaimRequest, signal?: AbortSignal): Promise<HeadClaimAnswer> {
    await this.#receive("heads/claim");
    this.headClaims.push(request);
    this.#changed();
    const deadline = performance.now() + request.wait_ms;
    while (this.#heads.length === 0 && performance.now() < deadline) await this.#change(signal);
    return { ttl_ms: this.#ttlMs, heads: this.#heads.splice(0, request.slots) };
  }

  async reportHeads({ results }: HeadReportRequest) {
    await this.#receive("heads/report");
    this.looks.push(...results);
    this.#changed();
    return { results: results.map(() => "recorded" as const) };
  }

  async sayStep(): Promise<StepAnswer> {
    await this.#receive("steps");
    return { status: "current", stop: false, routing_version: null };
  }

  async upstream(request: UpstreamRequest): Promise<UpstreamAnswer> {
    await this.#receive("upstream");
    if (this.#current(request) === null) {
      throw new PawlError("LEASE_LOST", "The attempt does not hold the task any more.");
    }
    return this.upstreamOf(request);
  }

  async exchangeSources({ sources }: SourceExchange) {
    await this.#receive("sources");
    this.#changed();
    const nothing = { request_size: null, interval_ms: 0, throttled_until: null };
    return {
      sources: sources.map(({ source, learnt }) => {
        const known = learnt ?? this.learnt.get(source) ?? nothing;
        this.learnt.set(source, known);
        return { source, learnt: known, workers: 1 };
      }),
    };
  }

  close(): void {}

  /** Serves the protocol over HTTP, for workers in threads and processes of their own. */
  async listen(): Promise<{ url: string; server: Server }> {
    const server = createServer((request, response) => {
      const gone = new AbortController();
      response.on("close", () => gone.abort());
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const path = request.url?.replace("/api/v1/worker/", "") ?? "";
        const name = PATHS[path] ?? (path as keyof WorkerConnection);
        const body = JSON.parse(Buffer.concat(parts).toString()) as never;
        const answering = this[name] as (body: never, signal: AbortSignal) => Promise<unknown>;
        answering.call(this, body, gone.signal).then(
          (answer) => response.end(JSON.stringify(answer)),
          (error: PawlError) => {
            response.writeHead(503, { "content-type": "application/problem+json" });
            response.end(JSON.stringify({ code: error.code, detail: error.message }));
          },
        );
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    return { url: `http://127.0.0.1:${port}`, server };
  }

  async #receive(message: string): Promise<void> {
    // An answer never comes in the turn of the event loop in which it was asked for.
    await new Promise((resolve) => setImmediate(resolve));
    await this.before(message);
  }

  async #claimed(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimAnswer> {
    const known = this.#leases.get(request.lease_id);
    const answer = known?.answer ?? (await this.#grant(request, signal));
    return this.#takesClaims ? { ...answer, takes_claims_with_reports: true } : answer;
  }

  async #grant(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimAnswer> {
    const deadline = performance.now() + request.wait_ms;
    for (;;) {
      const groups = this.#take(request);
      const answer = { lease_id: request.lease_id, ttl_ms: this.#ttlMs, groups };
      if (groups.length > 0) {
        const expiresAt = performance.now() + this.#ttlMs;
        this.#leases.set(request.lease_id, { expiresAt, answer });
        this.granted.push(request.lease_id);
        return answer;
      }
      if (performance.now() >= deadline) return answer;
      await this.#change(signal);
    }
  }

  /** Resolves at the next change; throws when the signal aborts. */
  async #change(signal?: AbortSignal): Promise<void> {
    // A signal that has aborted says so no more.
    signal?.throwIfAborted();
    await new Promise<void>((resolve) => {
      this.#listeners.push(resolve);
      signal?.addEventListener("abort", () => resolve());
    });
    signal?.throwIfAborted();
  }

  #take({ slots, lease_id, assets }: ClaimRequest): ClaimedGroup[] {
    let left = slots;
    const groups: ClaimedGroup[] = [];
    for (const { group, tasks } of this.#groups) {
      const isKnown = assets.includes(group.asset_key) || group.asset_key.startsWith("unknown");
      if (!isKnown) continue;
      const taken = tasks.filter(({ state }) => state === "ready").slice(0, left);
      left -= taken.length;
      for (const task of taken) {
        task.state = "running";
        task.attempt++;
        task.leaseId = lease_id;
      }
      if (taken.length > 0) groups.push({ ...group, tasks: taken.map(claimedTask) });
    }
    return groups;
  }

  #current({ run_pos, task_key, attempt }: TaskRef): Task | null {
    const task = this.#groups[run_pos - 1]?.tasks[task_key];
    return task?.attempt === attempt && task.state === "running" ? task : null;
  }

  #changed(): void {
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }
}

function claimedTask({ taskKey, attempt, partitionKeys, checkpoint }: Task) {
  return { task_key: taskKey, attempt, partition_keys: [...partitionKeys], checkpoint };
}

/** What a worker sees when nothing listens. */
export function unreachable(): never {
  throw new PawlError("SERVER_UNREACHABLE", "Nobody is there.");
}
