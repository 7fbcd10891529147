/**
 * Connects to a database and answers what counts there. Loads its library by itself, so that a
 * worker, whose memory is measured, does not.
 */
export async function openCounter(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<() => Promise<number>> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return async () => {
    const { rows } = await client.query<{ count: string }>(sql, [...values]);
    return Number(rows[0]?.count);
  };
}
