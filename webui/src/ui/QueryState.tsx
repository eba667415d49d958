import type { ReactNode } from "react";
import { ErrorState } from "./EmptyState";
import { SkeletonRows } from "./Skeleton";

/** What is used here of the result of `useQuery`. */
interface Query<T> {
  data: T | undefined;
  isPending: boolean;
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
  children: (data: T) => ReactNode;
}

/** Draws what was read; before that a skeleton, and after a failure the error with a way to try
 * again. Data that was read before stays when a later read fails. */
export function QueryState<T>({ query, what, rows, height, children }: Props<T>) {
  const { data, isPending, error, refetch } = query;
  if (data !== undefined) return <>{children(data)}</>;
  if (isPending) return <SkeletonRows rows={rows} height={height} />;
  return <ErrorState error={error} what={what} retry={() => void refetch()} />;
}
