import type { z } from "zod";
import {
  AcceptedAnswer,
  type CheckpointRequest,
  ClaimAnswer,
  type ClaimRequest,
  HeartbeatAnswer,
  type HeartbeatRequest,
  type LogRequest,
  ReportAnswer,
  type ReportRequest,
} from "../work/run/protocol.ts";
import { UpstreamAnswer, type UpstreamRequest } from "../work/asset/upstream-protocol.ts";
import { PawlError } from "../kernel/errors.ts";
import {
  HeadClaimAnswer,
  type HeadClaimRequest,
  HeadReportAnswer,
  type HeadReportRequest,
  ProbeClaimAnswer,
  type ProbeClaimRequest,
  ProbeReportAnswer,
  type ProbeReportRequest,
  type SourceExchange,
  SourceExchangeAnswer,
} from "../work/probe-protocol.ts";
import { StepAnswer, type StepWord } from "../work/shard/step-protocol.ts";
import type { Client } from "./client.ts";
import { type PostAddress, openJsonPost } from "./http-post.ts";

/** How long an answer may take beyond the time that a claim was allowed to wait. */
const ANSWER_TIMEOUT_MS = 10_000;

/**
 * The server as a worker sees it: the messages of `work/run/protocol.ts`, `work/probe-protocol.ts`,
 * `work/sync/source-protocol.ts` and `work/shard/step-protocol.ts`. Every one of them may be repeated when its answer was lost. Failures of operation are `PawlError`;
 * `SERVER_UNREACHABLE` also stands for an answer that did not come in time.
 */
export interface WorkerConnection {
  /** Where the server is, so that a thread can open a connection of its own; null when in memory. */
  readonly address: PostAddress | null;
  claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimAnswer>;
  heartbeat(request: HeartbeatRequest): Promise<HeartbeatAnswer>;
  checkpoint(request: CheckpointRequest): Promise<AcceptedAnswer>;
  log(request: LogRequest): Promise<AcceptedAnswer>;
  report(request: ReportRequest): Promise<ReportAnswer>;
  upstream(request: UpstreamRequest): Promise<UpstreamAnswer>;
  claimProbes(request: ProbeClaimRequest, signal?: AbortSignal): Promise<ProbeClaimAnswer>;
  reportProbes(request: ProbeReportRequest): Promise<ProbeReportAnswer>;
  claimHeads(request: HeadClaimRequest, signal?: AbortSignal): Promise<HeadClaimAnswer>;
  reportHeads(request: HeadReportRequest): Promise<HeadReportAnswer>;
  exchangeSources(request: SourceExchange): Promise<SourceExchangeAnswer>;
  sayStep(word: StepWord): Promise<StepAnswer>;
  close(): void;
}

/** Opens a worker's connection to a server over HTTP; nothing is sent before the first message. */
export function connectWorker(address: PostAddress): WorkerConnection {
  const post = openJsonPost(address);

  async function ask<Answer>(
    message: string,
    request: unknown,
    schema: z.ZodType<Answer>,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const path = `/api/v1/worker/${message}`;
    const answer = await post.send(path, request, timeoutMs, signal);
    const parsed = schema.safeParse(answer);
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    throw new PawlError(
      "INTERNAL",
      `The server's answer to ${message} is not as agreed: ${issue?.path.join(".")} ` +
        `${issue?.message}. Use the same version of Pawl on both sides.`,
      { cause: parsed.error },
    );
  }

  return {
    address,
    claim: (request, signal) =>
      ask("claim", request, ClaimAnswer, request.wait_ms + ANSWER_TIMEOUT_MS, signal),
    heartbeat: (request) => ask("heartbeat", request, HeartbeatAnswer, ANSWER_TIMEOUT_MS),
    checkpoint: (request) => ask("checkpoint", request, AcceptedAnswer, ANSWER_TIMEOUT_MS),
    log: (request) => ask("log", request, AcceptedAnswer, ANSWER_TIMEOUT_MS),
    report: (request) => ask("report", request, ReportAnswer, ANSWER_TIMEOUT_MS),
    upstream: (request) => ask("upstream", request, UpstreamAnswer, ANSWER_TIMEOUT_MS),
    claimProbes: (request, signal) =>
      ask("probes/claim", request, ProbeClaimAnswer, request.wait_ms + ANSWER_TIMEOUT_MS, signal),
    reportProbes: (request) => ask("probes/report", request, ProbeReportAnswer, ANSWER_TIMEOUT_MS),
    claimHeads: (request, signal) =>
      ask("heads/claim", request, HeadClaimAnswer, request.wait_ms + ANSWER_TIMEOUT_MS, signal),
    reportHeads: (request) => ask("heads/report", request, HeadReportAnswer, ANSWER_TIMEOUT_MS),
    exchangeSources: (request) => ask("sources", request, SourceExchangeAnswer, ANSWER_TIMEOUT_MS),
    sayStep: (word) => ask("steps", word, StepAnswer, ANSWER_TIMEOUT_MS),
    close: () => post.close(),
  };
}

/** Nobody listens in between, so nothing is lost on the way: an answer is waited for. */
const WITHIN_PROCESS_MS = 2_147_483_647;

/**
 * A worker's connection to a server in the same process: the messages, checks and answers of HTTP,
 * without a socket. Leases are renewed on the thread that runs the tasks.
 */
export function workWithin(client: Pick<Client, "call">): WorkerConnection {
  const timeoutMs = WITHIN_PROCESS_MS;
  return {
    address: null,
    claim: (body, signal) => client.call("claim", { body, signal, timeoutMs }),
    heartbeat: (body) => client.call("heartbeat", { body, timeoutMs }),
    checkpoint: (body) => client.call("checkpoint", { body, timeoutMs }),
    log: (body) => client.call("log", { body, timeoutMs }),
    report: (body) => client.call("report", { body, timeoutMs }),
    upstream: (body) => client.call("upstream", { body, timeoutMs }),
    claimProbes: (body, signal) => client.call("claimProbes", { body, signal, timeoutMs }),
    reportProbes: (body) => client.call("reportProbes", { body, timeoutMs }),
    claimHeads: (body, signal) => client.call("claimHeads", { body, signal, timeoutMs }),
    reportHeads: (body) => client.call("reportHeads", { body, timeoutMs }),
    exchangeSources: (body) => client.call("exchangeSources", { body, timeoutMs }),
    sayStep: (body) => client.call("sayStep", { body, timeoutMs }),
    close: () => undefined,
  };
}
