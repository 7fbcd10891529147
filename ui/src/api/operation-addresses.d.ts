/** Where each operation is found; made from the server's own table when the page is built. */
declare module "virtual:operations" {
  export const ADDRESSES: Readonly<
    Record<
      string,
      {
        method: "GET" | "POST" | "PUT" | "DELETE";
        path: string;
        verb: string | null;
        creates: boolean;
        hasBody: boolean;
      }
    >
  >;
}
