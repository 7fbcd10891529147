import { z } from "zod";
import {
  AllSelector,
  ExplicitSelector,
  FilterSelector,
  RangeSelector,
} from "../../kernel/keyspace/selector.ts";
import { Count, JsonValue } from "../envelope.ts";
import { accepted, DOCUMENT_BYTES_MAX, type Operation, QueryInstant } from "../operation.ts";
import { METADATA_LENGTH_MAX } from "../run/protocol.ts";
import { AssetParams, PARTITIONS_PATH } from "./api.ts";

/** What can be meant when partitions are reported: what is found by its status cannot. */
const ReportSelector = z.discriminatedUnion("type", [
  RangeSelector.omit({ only: true, as_of: true }),
  ExplicitSelector.omit({ only: true, as_of: true }),
  FilterSelector.omit({ only: true, as_of: true }),
  AllSelector.omit({ only: true, as_of: true }),
]);

/** Partitions that were made elsewhere. */
export const ReportPartitionsBody = z
  .strictObject({
    request_id: z.string().min(1).max(200).optional(),
    items: z
      .array(
        z.strictObject({
          selector: ReportSelector,
          /** When they were made; now when it is left out. */
          materialized_at: QueryInstant.optional(),
          code_version: z.string().min(1).max(200).optional(),
          /** At most 16,000 characters of JSON. */
          metadata: JsonValue.refine(
            (value) => JSON.stringify(value).length <= METADATA_LENGTH_MAX,
            { error: `must not be longer than ${METADATA_LENGTH_MAX} characters of JSON` },
          ).optional(),
        }),
      )
      .min(1)
      .max(1_000),
  })
  .meta({ id: "ReportPartitions" });
export type ReportPartitionsBody = z.infer<typeof ReportPartitionsBody>;

/** What the API can do with partitions that are made elsewhere. */
export const REPORT_OPERATIONS = {
  reportPartitions: {
    method: "POST",
    path: `${PARTITIONS_PATH}/report`,
    summary: "Records partitions as materialized that were made elsewhere, at most 10,000",
    verb: "write",
    params: AssetParams,
    body: ReportPartitionsBody,
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    answer: z.strictObject({ ...accepted, reported: Count }).meta({ id: "ReportedPartitions" }),
    status: 202,
    creates: true,
    keyField: "request_id",
  },
  forgetPartitions: {
    method: "POST",
    path: `${PARTITIONS_PATH}/forget`,
    summary: "Takes reports of partitions back; what a run made last stays as it is",
    verb: "write",
    params: AssetParams,
    body: z.strictObject({
      request_id: z.string().min(1).max(200).optional(),
      selector: ReportSelector,
    }),
    bodyBytesMax: DOCUMENT_BYTES_MAX,
    /** How many were last materialized by a report, and how many were not. */
    answer: z
      .strictObject({ ...accepted, forgotten: Count, left: Count })
      .meta({ id: "ForgottenPartitions" }),
    status: 202,
    creates: true,
    keyField: "request_id",
  },
} as const satisfies Record<string, Operation>;
