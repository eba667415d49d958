import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { isApiError } from "./errors";
import { me } from "./session";

/** A session that ended shows the login page, wherever it was noticed. */
function noticeLogout(error: unknown) {
  if (isApiError(error, 401)) queryClient.setQueryData(me.queryKey, null);
}

export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeLogout }),
  mutationCache: new MutationCache({ onError: noticeLogout }),
  defaultOptions: {
    queries: {
      staleTime: 2000,
      // A refusal stays one; a server that restarts is back in a moment.
      retry: (failures, error) => !isClientError(error) && failures < 2,
    },
  },
});

function isClientError(error: unknown): boolean {
  return isApiError(error) && error.status >= 400 && error.status < 500;
}
