import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { isApiError } from "./errors";
import { me } from "./session";

/** A session that ended asks for the login over the page, wherever it was noticed. The refusal may be
 * an old one, of a request from before the last login: only the server knows, so it is asked. */
function detectLogout(error: unknown) {
  if (!isApiError(error, 401) || error.code === "login_failed") return;
  if (queryClient.getQueryData(me.queryKey))
    void queryClient.fetchQuery({ ...me, staleTime: 0 }).catch(() => undefined);
}

export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: detectLogout }),
  mutationCache: new MutationCache({ onError: detectLogout }),
  defaultOptions: {
    // Offline a request fails with a sentence; the default is to hold it back without a word.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      staleTime: 2000,
      // A refusal stays one; a server that restarts is back in a moment.
      retry: (failures, error) => !isClientError(error) && failures < 2,
    },
  },
});

function isClientError(error: unknown): boolean {
  return isApiError(error) && error.status >= 400 && error.status < 500;
}
