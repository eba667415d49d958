import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { isApiError } from "./errors";
import { me, sessionEnded } from "./session";

/** A session that ended asks for the login over the page, wherever it was noticed. */
function detectLogout(error: unknown) {
  if (!isApiError(error, 401) || error.code === "login_failed") return;
  if (queryClient.getQueryData(me.queryKey)) queryClient.setQueryData(sessionEnded.queryKey, true);
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
