import { Button } from "@mantine/core";
import { errorMessage } from "@/api/errors";

interface Props {
  /** What is used here of the result of `useInfiniteQuery`. */
  list: {
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    isFetchNextPageError: boolean;
    error: unknown;
    fetchNextPage: () => unknown;
  };
  className: string | undefined;
}

/** Below a list in pages, reads the next one; where that failed, it says why. */
export function ShowMore({ list, className }: Props) {
  if (!list.hasNextPage) return null;
  return (
    <div className={className}>
      <Button
        variant="default"
        loading={list.isFetchingNextPage}
        onClick={() => void list.fetchNextPage()}
      >
        Show more
      </Button>
      {list.isFetchNextPageError ? <p role="alert">{errorMessage(list.error)}</p> : null}
    </div>
  );
}
