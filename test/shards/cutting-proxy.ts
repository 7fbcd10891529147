import { createServer, connect, type AddressInfo, type Socket } from "node:net";

/** What becomes of a piece that a client sends: it goes on, never arrives, or gets no answer. */
export type Verdict = "pass" | "lose" | "lose-answer";

/** A wire between a client and a server that can be cut. */
export interface CuttingProxy {
  readonly port: number;
  close(): Promise<void>;
}

/** Listens in front of a port, and cuts a connection when what is sent over it is judged so. */
export async function cuttingProxy(
  port: number,
  judge: (sent: string) => Verdict,
): Promise<CuttingProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    const cut = (): void => {
      client.destroy();
      upstream.destroy();
    };
    let isAnswerLost = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("close", () => {
        sockets.delete(socket);
        cut();
      });
      socket.on("error", cut);
    }
    client.on("data", (piece: Buffer) => {
      const verdict = judge(piece.toString("latin1"));
      if (verdict === "lose") return cut();
      isAnswerLost ||= verdict === "lose-answer";
      upstream.write(piece);
    });
    upstream.on("data", (piece: Buffer) => {
      // Once the answer has come this far, what was asked for is done.
      if (isAnswerLost) cut();
      else client.write(piece);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
