import { useEffect } from "react";
import {
  keepPreviousData,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
  type UseInfiniteQueryResult,
  type UseMutationResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import type { CallInput } from "../../../src/client/client.ts";
import type { AnswerOf, OperationName } from "../../../src/work/operations.ts";
import { call, type Refusal } from "./call.ts";

/** How an answer is kept up to date besides by events of the ledger. */
export type AnswerOptions<Answer = never> = {
  /**
   * Ask again after so many milliseconds: for what changes without an event, as progress does. It
   * may depend on the last answer.
   */
  everyMs?: number | undefined | ((answer: Answer) => number | undefined);
  /** False: do not ask yet. */
  enabled?: boolean | undefined;
  /** Show the last answer while one to a changed question is on its way. */
  keepPrevious?: boolean | undefined;
};

/**
 * The answer of an operation that reads, live: it is asked again when events come that
 * `live-rules.ts` names for it.
 */
export function useAnswer<Name extends OperationName>(
  name: Name,
  input: CallInput<Name>,
  options: AnswerOptions<AnswerOf<Name>> = {},
): UseQueryResult<AnswerOf<Name>, Refusal> {
  const { everyMs } = options;
  return useQuery<AnswerOf<Name>, Refusal>({
    queryKey: [name, input],
    queryFn: ({ signal }) => call(name, { ...input, signal }),
    enabled: options.enabled ?? true,
    refetchInterval:
      typeof everyMs === "function"
        ? ({ state: { data } }) => (data === undefined ? false : (everyMs(data) ?? false))
        : (everyMs ?? false),
    ...(options.keepPrevious === true ? { placeholderData: keepPreviousData } : {}),
  });
}

/** The names of the operations that answer lists with a cursor. */
export type ListName = {
  [Name in OperationName]: AnswerOf<Name> extends { items: unknown[]; next_cursor: string | null }
    ? Name
    : never;
}[OperationName];

/** An item of a list. */
export type ItemOf<Name extends ListName> = AnswerOf<Name>["items"][number];

/** The pages of a list that were asked for so far. */
export type ListAnswer<Item> = UseInfiniteQueryResult<{ items: Item[]; pos: number }, Refusal>;

/** How a list is kept up to date. */
export type ListOptions = Omit<AnswerOptions, "everyMs"> & { everyMs?: number | undefined };

/** A list, live, page after page: all items so far are in `data.items`. */
export function useList<Name extends ListName>(
  name: Name,
  input: CallInput<Name>,
  options: ListOptions = {},
): ListAnswer<ItemOf<Name>> {
  const { query } = input as { query?: Record<string, unknown> };
  return useInfiniteQuery({
    queryKey: [name, input, "pages"],
    queryFn: ({ signal, pageParam }) => {
      const paged = pageParam === null ? query : { ...query, cursor: pageParam };
      return call(name, { ...input, query: paged, signal });
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => (page as AnswerOf<ListName>).next_cursor,
    select: ({ pages }) => {
      const answers = pages as AnswerOf<Name>[];
      return {
        items: answers.flatMap(({ items }) => items as ItemOf<Name>[]),
        pos: answers.at(-1)?.pos ?? 0,
      };
    },
    enabled: options.enabled ?? true,
    // Each page is a request of its own: the more of them, the less often.
    refetchInterval: ({ state }) =>
      options.everyMs === undefined ? false : options.everyMs * (state.data?.pages.length ?? 1),
    ...(options.keepPrevious === true ? { placeholderData: keepPreviousData } : {}),
  }) as ListAnswer<ItemOf<Name>>;
}

/** A list, page after page by itself, as far as to so many items: a page may be short of its limit. */
export function useWholeList<Name extends ListName>(
  name: Name,
  input: CallInput<Name>,
  most: number,
): ListAnswer<ItemOf<Name>> {
  const list = useList(name, input);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const isMore = hasNextPage && !isFetchingNextPage && (list.data?.items.length ?? 0) < most;
  useEffect(() => {
    if (isMore) void fetchNextPage();
  }, [isMore, fetchNextPage]);
  return list;
}

/** Carries out an operation that changes something; everything shown is asked for again after it. */
export function useChange<Name extends OperationName>(
  name: Name,
): UseMutationResult<AnswerOf<Name>, Refusal, CallInput<Name>> {
  const client = useQueryClient();
  return useMutation<AnswerOf<Name>, Refusal, CallInput<Name>>({
    mutationFn: (input) => call(name, input),
    onSettled: () => client.invalidateQueries(),
  });
}
