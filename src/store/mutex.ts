/** Lets one asynchronous body run at a time, in the order they asked. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  run<Result>(body: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(body);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
