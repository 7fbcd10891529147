/** A survey of which all who ask at the same time get the same answer, as the metrics of a scrape do. */
export function sharedSurvey<Result>(survey: () => Promise<Result>): () => Promise<Result> {
  let reading: Promise<Result> | null = null;
  return () => {
    reading ??= survey().finally(() => {
      reading = null;
    });
    return reading;
  };
}
