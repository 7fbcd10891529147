import { ponder } from "ponder:registry";
import { transfer } from "ponder:schema";

ponder.on("Token:Transfer", async ({ event, context }) => {
  const { from, to, value } = event.args;
  const block = Number(event.block.number);
  await context.db
    .insert(transfer)
    .values({ block, logIndex: event.log.logIndex, from, to, value });
});
