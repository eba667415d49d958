import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { isApiError } from "./errors";
import type { Me, TokenScope } from "./types";

export const info = queryOptions({
  queryKey: ["info"],
  queryFn: () => take(client.GET("/api/v1/info")),
  staleTime: Infinity,
});

/** Whether somebody was logged in on this page and the server knows the session no more. */
export const sessionEnded = queryOptions({
  queryKey: ["session-ended"],
  queryFn: () => false,
  initialData: false,
  staleTime: Infinity,
});

/** Who is logged in; null is nobody. Whoever was stays known when the session ends, so that the
 * page stays as it is while the login is asked for. */
export const me = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ client: queries }): Promise<Me | null> => {
    try {
      return await take(client.GET("/api/v1/me"));
    } catch (error) {
      if (!isApiError(error, 401)) throw error;
      const known = queries.getQueryData<Me | null>(["me"]) ?? null;
      if (known) queries.setQueryData(sessionEnded.queryKey, true);
      return known;
    }
  },
  staleTime: 60_000,
});

export const tokens = queryOptions({
  queryKey: ["tokens"],
  queryFn: () => take(client.GET("/api/v1/auth/tokens")),
});

export function login(username: string, password: string) {
  return take(client.POST("/api/v1/auth/login", { body: { username, password } }));
}

export function logout() {
  return take(client.POST("/api/v1/auth/logout"));
}

/** The answer holds the token itself, this once only. */
export function createToken(name: string, expires_in_s: number, scope: TokenScope) {
  return take(client.POST("/api/v1/auth/tokens", { body: { name, expires_in_s, scope } }));
}

export function changePassword(current: string, next: string, keep_tokens: boolean) {
  const body = { current, new: next, keep_tokens };
  return take(client.POST("/api/v1/me/password", { body }));
}

/** By a link that an administrator made; it works once. */
export function resetPassword(username: string, token: string, next: string) {
  return take(client.POST("/api/v1/auth/password-reset", { body: { username, token, new: next } }));
}

export function revokeToken(id: string) {
  return take(client.DELETE("/api/v1/auth/tokens/{id}", { params: { path: { id } } }));
}
