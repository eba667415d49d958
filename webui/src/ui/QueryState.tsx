import type { ReactNode } from "react";
import { ErrorState } from "./EmptyState";
import { SkeletonRows } from "./Skeleton";
import { StaleNote } from "./StaleNote";

/** What is used here of the result of `useQuery`. */
interface Query<T> {
  data: T | undefined;
  dataUpdatedAt: number;
  isPending: boolean;
  isFetching: boolean;
  error: unknown;
  refetch: () => unknown;
}

interface Props<T> {
  query: Query<T>;
  /** What is read, for the message of a failure: "list of images". */
  what: string;
  /** Of the skeleton: how many rows, and how high they are in pixels. */
  rows?: number;
  height?: number;
  /** Of a list in pages, where the address names one of them: it may be an old one. */
  onFirstPage?: (() => void) | undefined;
  children: (data: T) => ReactNode;
}

/** Draws what was read; before that a skeleton, and after a failure the error with a way to try
 * again. Data that was read before stays when a later read fails, below a note that says so. */
export function QueryState<T>({ query, what, rows, height, onFirstPage, children }: Props<T>) {
  const { data, isPending, error, refetch } = query;
  if (data !== undefined) {
    return (
      <>
        <StaleNote query={query} what={what} />
        {children(data)}
      </>
    );
  }
  if (isPending) return <SkeletonRows rows={rows} height={height} />;
  return (
    <ErrorState error={error} what={what} retry={() => void refetch()} onFirstPage={onFirstPage} />
  );
}
