import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { isApiError } from "./errors";
import type { ApiToken, Info, Me } from "./types";

export const info = queryOptions({
  queryKey: ["info"],
  queryFn: () => take<Info>(client.GET("/api/v1/info")),
  staleTime: Infinity,
});

/** Who is logged in; null is nobody. */
export const me = queryOptions({
  queryKey: ["me"],
  queryFn: async (): Promise<Me | null> => {
    try {
      return await take<Me>(client.GET("/api/v1/me"));
    } catch (error) {
      if (isApiError(error, 401)) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

export const tokens = queryOptions({
  queryKey: ["tokens"],
  queryFn: () => take<ApiToken[]>(client.GET("/api/v1/auth/tokens")),
});

export function login(username: string, password: string) {
  return take<Me>(client.POST("/api/v1/auth/login", { body: { username, password } }));
}

export function logout() {
  return take(client.POST("/api/v1/auth/logout"));
}

/** The answer holds the token itself, this once only. */
export function createToken(name: string, expires_in_s: number | null) {
  const body = { name, ...(expires_in_s && { expires_in_s }) };
  return take<{ token: string; expires_at: string | null }>(
    client.POST("/api/v1/auth/tokens", { body }),
  );
}

export function revokeToken(id: string) {
  return take(client.DELETE("/api/v1/auth/tokens/{id}", { params: { path: { id } } }));
}
