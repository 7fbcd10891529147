import type { Instant } from "../core/instant.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import type { Admission, Limits } from "./admission.ts";
import type { Authenticate } from "./authenticate.ts";
import type { CheckHost } from "./browser-rules.ts";
import type { ProcessMetrics, WorkspaceMetrics } from "./metrics.ts";
import type { Reception } from "./reception.ts";
import type { Engine } from "../engine/engine.ts";

/** The part of a store that the server uses beside its engines: tokens, secrets, and what it is. */
export type ServerStore = Pick<
  Store,
  | "tokenByHash"
  | "tokens"
  | "saveToken"
  | "revokeToken"
  | "description"
  | "unsafe"
  | "now"
  | "learntSources"
  | "samples"
  | "secrets"
  | "addSecret"
>;

/** Where the server writes what an operator should know. */
export interface ServerLog {
  error(fields: object, message: string): void;
}

/** What all requests of one server share. */
export type ServerContext = {
  readonly version: string;
  readonly store: ServerStore;
  /** Whether a request without a token is refused: then nothing is told to those without. */
  readonly tokensRequired: boolean;
  /** One for each workspace; the first is that of requests without a token. */
  readonly engines: readonly Engine[];
  readonly engineOf: ReadonlyMap<WorkspaceId, Engine>;
  readonly metricsOf: ReadonlyMap<Engine, WorkspaceMetrics>;
  readonly processMetrics: ProcessMetrics;
  readonly authenticate: Authenticate;
  readonly checkHost: CheckHost;
  readonly admission: Admission;
  readonly limits: Limits;
  /** Where bodies come in: of those with a token, and of all others. */
  readonly reception: { readonly known: Reception; readonly strangers: Reception };
  readonly log: ServerLog;
  /** `host` or `host:port` of receivers of webhooks that may have an address that is not public. */
  readonly webhookHosts: readonly string[];
  /** Aborts when the server stops: ends streams and waiting claims. */
  readonly stopping: AbortSignal;
  now(): Instant;
  uptimeMs(): number;
};
