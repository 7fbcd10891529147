import {
  AcceptedAnswer,
  CheckpointRequest,
  ClaimAnswer,
  ClaimRequest,
  HeartbeatAnswer,
  HeartbeatRequest,
  LogRequest,
  ReportAnswer,
  ReportRequest,
} from "./run/protocol.ts";
import { UpstreamAnswer, UpstreamRequest } from "./asset/upstream-protocol.ts";
import {
  HeadClaimAnswer,
  HeadClaimRequest,
  HeadReportAnswer,
  HeadReportRequest,
  ProbeClaimAnswer,
  ProbeClaimRequest,
  ProbeReportAnswer,
  ProbeReportRequest,
  SourceExchange,
  SourceExchangeAnswer,
} from "./probe-protocol.ts";
import { StepAnswer, StepWord } from "./shard/step-protocol.ts";
import {
  LARGE_BODY_BYTES_MAX,
  type Operation,
  WORKER_BYTES_MAX,
  WORKER_PATH,
} from "./operation.ts";

const message = {
  method: "POST",
  verb: "work",
  bodyBytesMax: LARGE_BODY_BYTES_MAX,
  status: 200,
} as const;

/** What workers say to the server. */
export const WORKER_OPERATIONS = {
  claim: {
    ...message,
    path: `${WORKER_PATH}/claim`,
    summary: "Takes tasks that are ready, waiting for some if need be",
    body: ClaimRequest,
    bodyBytesMax: WORKER_BYTES_MAX,
    answer: ClaimAnswer,
  },
  heartbeat: {
    ...message,
    path: `${WORKER_PATH}/heartbeat`,
    summary: "Renews leases and hears what to stop",
    body: HeartbeatRequest,
    bodyBytesMax: WORKER_BYTES_MAX,
    answer: HeartbeatAnswer,
  },
  checkpoint: {
    ...message,
    path: `${WORKER_PATH}/checkpoint`,
    summary: "Keeps how far attempts got",
    body: CheckpointRequest,
    answer: AcceptedAnswer,
  },
  log: {
    ...message,
    path: `${WORKER_PATH}/log`,
    summary: "Keeps lines that tasks logged",
    body: LogRequest,
    answer: AcceptedAnswer,
  },
  report: {
    ...message,
    path: `${WORKER_PATH}/report`,
    summary: "Records the ends of attempts",
    body: ReportRequest,
    answer: ReportAnswer,
  },
  upstream: {
    ...message,
    path: `${WORKER_PATH}/upstream`,
    summary: "Tells a task of the upstream partitions that it is made from",
    body: UpstreamRequest,
    answer: UpstreamAnswer,
  },
  claimProbes: {
    ...message,
    path: `${WORKER_PATH}/probes/claim`,
    summary: "Takes evaluations of sensors that are due, waiting for some if need be",
    body: ProbeClaimRequest,
    bodyBytesMax: WORKER_BYTES_MAX,
    answer: ProbeClaimAnswer,
  },
  reportProbes: {
    ...message,
    path: `${WORKER_PATH}/probes/report`,
    summary: "Records what evaluations of sensors came to",
    body: ProbeReportRequest,
    answer: ProbeReportAnswer,
  },
  claimHeads: {
    ...message,
    path: `${WORKER_PATH}/heads/claim`,
    summary: "Takes heads of sources that are to be looked up, waiting for some if need be",
    body: HeadClaimRequest,
    bodyBytesMax: WORKER_BYTES_MAX,
    answer: HeadClaimAnswer,
  },
  reportHeads: {
    ...message,
    path: `${WORKER_PATH}/heads/report`,
    summary: "Records how far sources have got, and what they rewrote",
    body: HeadReportRequest,
    answer: HeadReportAnswer,
  },
  exchangeSources: {
    ...message,
    path: `${WORKER_PATH}/sources`,
    summary: "Shares what was learnt about sources with all workers that use them",
    body: SourceExchange,
    answer: SourceExchangeAnswer,
  },
  sayStep: {
    ...message,
    path: `${WORKER_PATH}/steps`,
    summary: "Says how far a step on shards is, has its commit recorded, and hears whether to stop",
    body: StepWord,
    answer: StepAnswer,
  },
} as const satisfies Record<string, Operation>;
