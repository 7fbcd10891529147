import type { Json } from "../kernel/canonical.ts";
import type { Expecting } from "../work/command.ts";
import type { Decide } from "../work/decision.ts";
import type { Engine } from "../engine/engine.ts";
import { expectedVersion } from "./http/await-event.ts";
import { type Call, type Reply, submitted } from "./http/call.ts";

/** A request that changes something, whatever its body is. */
type Changing<Params> = Omit<Call<"createBackfill">, "name" | "params" | "query" | "body"> &
  Parameters<typeof expectedVersion>[0] & { params: Params; body?: object | undefined };

/** What a command hears: the body and the path, the name of what it is about, and its version. */
type Said<Of extends Changing<object>, Reference> = Of["body"] &
  Of["params"] &
  Reference &
  Expecting;

/** What a change answers besides where it stands in the ledger. */
type Answer = { message: string } & Record<string, Json>;

/**
 * Makes the handlers of a kind's commands. `referenceOf` gives the name by which they know what they
 * are about; the version that one expects may stand in the body, in the query or in `If-Match`. `check`
 * refuses what is wrong before anything is looked up.
 */
export function commandRoutes<Params extends object, Reference extends object>(
  referenceOf: (params: Params, engine: Engine) => Reference | Promise<Reference>,
) {
  return <Of extends Changing<Params>, Result>(
    decide: (said: Said<NoInfer<Of>, Reference>) => Decide<Result>,
    answerOf: (result: Result, call: NoInfer<Of>) => Answer,
    check?: (call: NoInfer<Of>) => void,
  ) =>
    async (call: Of): Promise<Reply> => {
      check?.(call);
      const { body, params, engine } = call;
      const reference = await referenceOf(params, engine);
      const said = { ...body, ...params, ...reference, ...expectedVersion(call) };
      return submitted(call, decide(said), (result) => answerOf(result, call));
    };
}
