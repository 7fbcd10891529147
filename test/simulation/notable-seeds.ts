/**
 * Seeds that once found something, run with every test run. A seed means the same simulation only
 * as long as the simulation itself does not change, so what it found is said in a test as well.
 */
export const NOTABLE_SEEDS: readonly number[] = [
  // A run whose task waited for its next attempt could not be cancelled.
  5, 57,
  // A due retry that nobody could take made the engine spin.
  9,
  // A skip with its reason counted as done and as failed.
  21,
  // Partial failures of a batch released tasks that need its failed keys under another key.
  4, 26,
  // A retry of an asset without partitions planned more than was left.
  88,
  // A retry whose timer died with the server that had recorded it was never taken.
  1202,
  // A server that had heard nothing of another's ticks woke every millisecond.
  13, 28,
  // A copy of a request overtook its original, which the checker took for an answer out of nowhere.
  701430,
  // A sensor that had failed was taken to be idle before it had looked again.
  701630,
  // A clock that was set back stood still under who looked at it every millisecond.
  801655,
  // A calm worker that slept between its claims was taken for work that never ends.
  801971,
  // A retry of a backfill that went on left out what was skipped behind a task its worker gave up.
  5102365,
];

/** Seeds of simulations with syncs that once found something. */
export const NOTABLE_SYNC_SEEDS: readonly number[] = [
  // Looks at heads left nothing of a slow source to history.
  45,
  // A range that was planned before it had a head was never complete.
  78,
  // An urgent claim that found nothing hid history from all others.
  157,
  // A look that was compared with hashes of before another look repeated a rewrite.
  426,
  // A rewrite above the newest known hash went unseen where less finality was asked for.
  3046,
  // What was complete before and after a rewrite that nobody had looked at was taken for one chain.
  701386, 703289,
  // A look under a definition without hashes was compared with none, and hid a rewrite for ever.
  1002548,
  // Two lanes of a worker that let their tasks end for a suspect waited for each other.
  1009405, 1030757,
  // Blocks were fetched that no known hash was above: their rewrite before the next look went unseen.
  1035837,
  1036454,
];
