import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";

const PAGE = 100;

/** A page of the API tokens of all users, or of one; for administrators. */
export const allTokens = (user?: string, ordering?: string, cursor?: string) =>
  queryOptions({
    queryKey: ["all-tokens", user, ordering, cursor],
    queryFn: ({ signal }) => {
      const query = {
        limit: PAGE,
        ...(user && { user }),
        ...(ordering && { ordering }),
        ...(cursor && { cursor }),
      };
      return unwrap(client.GET("/api/v1/tokens", { params: { query }, signal }));
    },
    placeholderData: (previous) => previous,
  });

export function revokeAnyToken(id: string) {
  return unwrap(client.DELETE("/api/v1/tokens/{id}", { params: { path: { id } } }));
}
