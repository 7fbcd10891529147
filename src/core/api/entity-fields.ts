import { z } from "zod";
import { Count } from "../events/fields.ts";
import { accepted } from "./operation.ts";

/** What acts by itself as a path names it: by its id, or by its name. */
export const EntityRef = z.string().min(1).max(200);

/** Names a request that makes something; the same name never makes a second. */
export const clientRequestId = { client_request_id: z.string().min(1).max(200).optional() };

/** What making, changing, pausing, resuming or deleting something answers, besides its id and state. */
export const entityAnswer = { ...accepted, name: z.string(), state_version: Count };

/** The same for what changes the definition. */
export const definedAnswer = { ...entityAnswer, definition_version: Count };
